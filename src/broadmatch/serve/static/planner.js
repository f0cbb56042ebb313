// The planner: phrases for a page as one types, with why, and what the log says of each; chosen ones are exported.

import { call, send } from "./api.js";
import { address as writeAddress, coded, fill, fixed, make, percent, save, select, state, whole } from "./dom.js";
import { kindOf, pageField, phraseList } from "./planner_input.js";
import { MATCHES, SORTS, atBid, bidOf, phraseTable } from "./planner_rows.js";
import { sidePanel } from "./planner_side.js";
import { toast } from "./toast.js";

export const title = "Planner";
const [WAIT, KEPT, LONGEST, FEW] = [250, "broadmatch-plan", 1500, 20];
const FILES = { csv: ["CSV", "plan.csv"], xlsx: ["Excel", "plan.xlsx"], google: ["Google Ads Editor", "google-ads-editor.csv"], microsoft: ["Microsoft bulk file", "microsoft-bulk.csv"] };

// What one asks and chooses; kept for this tab, and in the address as far as it is short.
function begin(query) {
  const fresh = { text: "", file: null, have: [], never: [], take: "set", precision: 0.5, match: "broad", bid: "", sort: "score", campaign: "Campaign", edits: {} };
  let kept = {};
  try {
    kept = JSON.parse(sessionStorage.getItem(KEPT) ?? "{}");
  } catch {
    sessionStorage.removeItem(KEPT);
  }
  const plan = { ...fresh, ...kept, file: null };
  if (!["text", "address", "have", "never"].some((name) => query.has(name))) return plan;
  // A link to another plan than the one of this tab begins anew.
  const asked = { text: query.get("address") ?? query.get("text") ?? "", have: query.getAll("have"), never: query.getAll("never") };
  const same = plan.text.trim() === asked.text && ["have", "never"].every((name) => String(plan[name].slice(0, FEW)) === String(asked[name]));
  return same ? plan : { ...fresh, ...asked };
}

function keep(plan) {
  const query = new URLSearchParams();
  if (plan.text && plan.text.length <= LONGEST) query.set(kindOf(plan.text) === "address" ? "address" : "text", plan.text.trim());
  for (const name of ["have", "never"]) for (const one of plan[name].slice(0, FEW)) query.append(name, one);
  if (!plan.text || query.has("text") || query.has("address")) writeAddress(`planner${query.size ? `?${query}` : ""}`);
  try {
    sessionStorage.setItem(KEPT, JSON.stringify({ ...plan, file: null, text: plan.text.slice(0, 200_000) }));
  } catch {
    sessionStorage.removeItem(KEPT); // no room: the address still has what is short
  }
}

const pageOf = (plan) => {
  const text = plan.file ? plan.file.text : plan.text.trim();
  return text ? { [plan.file ? plan.file.kind : kindOf(text)]: text } : {};
};

export async function show(main, query) {
  const parts = await call("GET", "/v1/studio");
  const plan = begin(query);
  const results = make("section.results", { label: "Phrases" });
  const side = sidePanel((address) => field.set(address));
  let reply = null, table = null, waiting = 0, running = null;

  const changed = () => {
    keep(plan);
    clearTimeout(waiting);
    waiting = setTimeout(ask, WAIT);
  };
  const field = pageField(plan, changed);
  const have = phraseList("Phrases you have", "add a phrase, Enter", plan.have, changed);
  const never = phraseList("Phrases you never want", "free, [exactly this] …", plan.never, changed);

  async function ask() {
    running?.abort();
    running = new AbortController();
    const page = pageOf(plan);
    if (!Object.keys(page).length && !plan.have.length) return void ((reply = null), side.setPage({ blocks: [] }), draw());
    results.setAttribute("aria-busy", "true");
    try {
      reply = await call("POST", "/v1/studio/plan", { ...page, revealed: plan.have, negatives: plan.never }, running.signal);
      side.setPage(reply);
      draw();
    } catch (error) {
      if (error.name === "AbortError") return;
      reply = null;
      fill(results, state(error.message, "bad"));
    }
    results.removeAttribute("aria-busy");
  }

  // By the rule (the models' set, or an expected precision), unless one said otherwise.
  function taken() {
    const byRule = new Set();
    const bySet = plan.take === "set" && reply.has_set;
    let sum = 0;
    for (const [i, one] of reply.phrases.entries()) {
      sum += one.score;
      if (!bySet && sum / (i + 1) < plan.precision) break;
      if (!bySet || one.in_set) byRule.add(one.phrase);
    }
    return reply.phrases.filter((one) => plan.edits[one.phrase]?.chosen ?? byRule.has(one.phrase));
  }

  function update() {
    const chosen = new Set(taken());
    for (const row of table.rows) {
      row.update(chosen.has(row.one));
      const n = row.group.rows.filter((other) => chosen.has(other.one)).length;
      [row.group.box.checked, row.group.box.indeterminate] = [n === row.group.rows.length, n > 0 && n < row.group.rows.length];
    }
    fill(summary, summed([...chosen]));
    for (const button of exports_.querySelectorAll("button")) button.disabled = !chosen.size;
    slide.textContent = percent(plan.precision, 0);
    keep(plan);
  }

  function summed(chosen) {
    const total = (values) => values.filter(Number.isFinite).reduce((a, b) => (a || 0) + b, NaN);
    const found = chosen.map((one) => atBid(one.facts, bidOf(one, plan)));
    const known = found.filter(Boolean).length;
    const score = total(chosen.map((one) => one.score)) / chosen.length;
    const cells = [
      ["phrases taken", whole(chosen.length), `of ${reply.phrases.length}`],
      ["expected precision", percent(score, 0), reply.calibrated ? "mean score" : "mean score, not calibrated"],
      ["searches a month", whole(total(chosen.map((one) => one.facts?.searches))), ""],
      ["clicks a month", whole(total(found.map((one) => one?.clicks))), known < chosen.length ? `known of ${known}` : "at least"],
      ["cost a month", fixed(total(found.map((one) => one?.cost))), ""],
    ];
    return cells.map(([name, value, more]) => make("div", make("b", value), make("span", name), make("small", more)));
  }

  const on = {
    chosen: (ones, chosen) => (ones.forEach((one) => edit(one, { chosen })), update()),
    changed: (one, what) => (edit(one, what), update()),
    why: (one, from) => {
      results.querySelectorAll(".asked").forEach((other) => other.classList.remove("asked"));
      from.closest("tr").classList.add("asked");
      side.explain(one, { ...pageOf(plan), revealed: plan.have });
      if (matchMedia("(max-width: 64rem)").matches) side.element.scrollIntoView();
    },
    never: (one) => {
      const rule = `[${one.phrase}]`;
      never.add(rule);
      toast(`Never “${one.phrase}”.`, { undo: () => (plan.never.splice(plan.never.indexOf(rule), 1), never.draw(), changed()) });
    },
  };
  const edit = (one, what) => (plan.edits[one.phrase] = { ...plan.edits[one.phrase], ...what });

  const slide = make("output");
  const slider = make("input", { type: "range", min: "0", max: "1", step: "0.01", value: String(plan.precision), label: "Expected precision, at least", oninput: () => rule("precision", Number(slider.value)) });
  const take = make("select", { onchange: () => rule(take.value) });
  const rule = (name, precision = plan.precision) => {
    Object.assign(plan, { take: name, precision });
    for (const one of Object.values(plan.edits)) delete one.chosen;
    take.value = name;
    slider.disabled = false;
    update();
  };
  const match = select("Match type", MATCHES, plan.match, (value) => ((plan.match = value), update()));
  const bid = make("input", { type: "number", min: "0.01", step: "0.01", inputmode: "decimal", placeholder: "low top bid", value: plan.bid, oninput: () => ((plan.bid = bid.value), update()) });
  const sort = select("Sort by", Object.entries(SORTS).map(([name, [text]]) => [name, text]), plan.sort, (value) => ((plan.sort = value), draw()));
  const campaign = make("input", { value: plan.campaign, maxlength: "100", oninput: () => ((plan.campaign = campaign.value), keep(plan)) });
  const summary = make("div.summary", { "aria-live": "polite" });
  const exports_ = make("div.bar.tight", { role: "group", label: "Export" }, Object.entries(FILES).map(([kind, [text]]) => make("button", { onclick: () => download(kind) }, text)));

  function draw() {
    if (!reply) return void fill(results, emptyState(parts, field));
    const notes = notesOf(parts, reply);
    if (!reply.phrases.length) return void fill(results, notes, state(reply.ruled_out ? `All ${reply.ruled_out} phrases are ones you never want; take one of those away.` : "No phrases were found for this; give more of the page.", ""));
    fill(take, reply.has_set && make("option", { value: "set" }, "the models’ own set"), make("option", { value: "precision" }, "by expected precision"));
    if (!reply.has_set) plan.take = "precision";
    take.value = plan.take;
    const by = SORTS[plan.sort][1];
    const phrases = plan.sort === "score" ? reply.phrases : [...reply.phrases].sort((a, b) => by(b) - by(a));
    table = phraseTable(phrases, plan, reply, on);
    fill(results,
      make("div.bar", make("label", "Take", take), make("label", make("span", "Precision ≥ ", slide), slider), match, make("label", "Bid for all", bid), sort),
      summary, notes, make("div.scroll", table.element),
      reply.unit && make("p.note.quiet", "Bids and costs are in the currency of the log. Clicks and cost are what the log lets expect of an ad like those it met, at least; – is what the log does not have."),
      make("div.bar", make("label", "Campaign", campaign), make("div", make("span.label.quiet", "Export what is taken as"), exports_)),
    );
    update();
  }

  async function download(kind) {
    const rows = taken().map((one) => {
      const mine = plan.edits[one.phrase] ?? {}, amount = bidOf(one, plan), found = atBid(one.facts, amount), facts = one.facts ?? {};
      return { phrase: mine.name ?? one.phrase, match: mine.match ?? plan.match, theme: one.theme, bid: amount, score: one.score, sources: one.sources, searches: facts.searches, competition: facts.competition, bid_low: facts.bid_low, bid_high: facts.bid_high, ...found };
    });
    const page = pageOf(plan).address ?? "";
    try {
      const answer = await send("POST", `/v1/studio/export/${kind}`, { rows, campaign: plan.campaign, page, negatives: plan.never });
      save(await answer.blob(), FILES[kind][1]);
      toast(`${rows.length} phrases are in ${FILES[kind][1]}.`);
    } catch (error) {
      toast(error.message);
    }
  }

  fill(main,
    make("h1", title),
    make("div.card.asks", field.element, make("div", have.element, never.element)),
    make("div.planned", results, side.element));
  draw();
  if (plan.text || plan.have.length) await ask();
}

function emptyState(parts, field) {
  const tries = parts.examples.map((address) => make("button.plain.link.text", { onclick: () => field.set(address) }, address));
  return make("div.state", make("p", "Paste a page, its address, or just a few words about what you sell: phrases come as you type."),
    tries.length && make("p", `Or try one of the ${whole(parts.pages)} known pages:`), tries.map((one) => make("div", one)));
}

function notesOf(parts, reply) {
  const notes = [
    !parts.recommender && "No phrase model is served, so phrases come from the page alone. `broadmatch publish recommender FOLDER MODEL` brings one.",
    !reply.unit && "No log is published, so searches, bids and costs are absent. `broadmatch publish studio FOLDER --queries … --auctions …` brings them.",
    reply.ruled_out > 0 && `${reply.ruled_out} phrase${reply.ruled_out > 1 ? "s" : ""} left out that you never want.`,
  ];
  return notes.filter(Boolean).map((text) => make("p.note.quiet", coded(text)));
}
