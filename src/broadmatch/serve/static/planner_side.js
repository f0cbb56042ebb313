// The text of the page beside its phrases, and why a phrase is there: its words marked, and the pages behind it.

import { call } from "./api.js";
import { fill, fixed, make, percent, state } from "./dom.js";

const WORD = /[\p{L}\p{N}]+/gu;
const ARMS = { rewrites: "searched after", walk: "clicked like", simrank: "clicked like", co_bid: "bid on together with" };

export function sidePanel(open) {
  const why = make("div.why", { "aria-live": "polite" });
  const text = make("div.page-text", { tabindex: "0", role: "region", label: "Text of the page" });
  const element = make("aside.card.side", { label: "The page, and why" }, why, make("h2", "The page"), text);
  let blocks = [], asked = null;

  function draw(words = new Map(), phrase = "") {
    const own = new Set(phrase.toLowerCase().match(WORD) ?? []);
    fill(text, blocks.length ? blocks.map((block) => paragraph(block, words, own)) : make("p.quiet", "The text of the page stands here, and the words behind a phrase are marked in it."));
    const first = text.querySelector("mark");
    text.scrollTop = first ? first.offsetTop - text.offsetTop - 20 : 0; // the page itself does not move
  }

  function setPage(reply) {
    blocks = reply.blocks.concat(reply.cut ? [{ kind: "text", text: "… The page goes on; all of it counts." }] : []);
    fill(why, reply.phrases?.length > 0 && make("p.quiet", "Choose a phrase to see why it is there."));
    draw();
  }

  async function explain(one, page) {
    asked?.abort();
    asked = new AbortController();
    fill(why, state("Asking why …"));
    try {
      const found = await call("POST", "/v1/studio/why", { ...page, phrase: one.phrase }, asked.signal);
      fill(why, explained(one, found, open));
      draw(new Map(found.words), one.phrase);
    } catch (error) {
      if (error.name !== "AbortError") fill(why, state(error.message, "bad"));
    }
  }
  draw();
  return { element, setPage, explain };
}

function paragraph(block, words, own) {
  const made = make("p", { class: `block ${block.kind} text` });
  let at = 0;
  for (const found of block.text.matchAll(WORD)) {
    const word = found[0].toLowerCase(), weight = words.get(word);
    if (weight === undefined && !own.has(word)) continue;
    const mark = make("mark", { class: own.has(word) ? "own" : "", title: weight === undefined ? "a word of the phrase" : `weight ${fixed(weight)}` }, found[0]);
    made.append(block.text.slice(at, found.index), mark);
    at = found.index + found[0].length;
  }
  made.append(block.text.slice(at));
  return made;
}

function explained(one, found, open) {
  const shown = [make("h2.text", `Why “${one.phrase}”?`)];
  const list = (title, items) => items.length && shown.push(make("h3", title), make("ul", items.map((item) => make("li", item))));
  const factors = found.factors;
  if (found.words.length) shown.push(make("h3", "Words of the page that led to it"),
    make("p.words", found.words.slice(0, 12).map(([word, amount]) => [make("span.tag.text", { title: `weight ${fixed(amount)}` }, word), " "])));
  list("Training pages like this one that had it", found.pages.map(([page, likeness]) => [
    /^https?:/.test(page) ? make("button.plain.link.text", { title: "Plan this page", onclick: () => open(page) }, page) : make("span.text", page),
    make("small", ` ${percent(likeness, 0)} alike`)]));
  if (factors.times !== undefined) {
    const zones = Object.entries(factors).filter(([name]) => name.startsWith("in ")).map(([name]) => name.slice(3));
    list("It stands on the page", [`${factors.times} time${factors.times === 1 ? "" : "s"}${zones.length ? `, in ${zones.join(", ")}` : ""}; probability ${percent(factors.probability, 0)}`]);
  }
  list("It goes with other phrases", one.seeds.map(([seed, arm, share]) => [`${ARMS[arm] ?? arm} `, make("b.text", seed), make("small", ` ${percent(share, 0)} of its score`)]));
  if (shown.length === 1) shown.push(make("p.quiet", "The models in service say no more of it."));
  return shown;
}
