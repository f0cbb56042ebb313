// The auction taken apart: candidates, what each scores and pays, why; and what other bids and rules would change.

import { call } from "./api.js";
import { address, fill, fixed, make, percent, select, signed, state, svg, table, whole } from "./dom.js";
import { bothWays } from "./tables.js";

export const title = "Auction";
const TERMS = ["rule", "places", "squashing", "reserve"];
const WAIT = 150;

export async function show(main, query) {
  const asked = { query: query.get("q") ?? "", context: {}, bids: {}, key: query.get("key") ?? undefined };
  for (const [name, value] of query) {
    if (name.startsWith("with.")) asked.context[name.slice(5)] = value;
    if (name.startsWith("bid.") && Number.isFinite(Number(value))) asked.bids[name.slice(4)] = Number(value);
    if (TERMS.includes(name)) asked[name] = name === "rule" ? value : Number(value);
  }
  const first = await call("POST", "/v1/studio/xray", { query: "", ...(asked.key && { key: asked.key }) });
  asked.key ??= first.search;
  if (!first.examples.length) return fill(main, make("h1", title), state("No ad bids on anything here; index some with `broadmatch ads index`, or send them to /v1/ads/changes."));
  let [chosen, before, sent, timer] = [query.get("ad"), null, null, 0];

  const field = (text, attributes, change) => make("label", text, make("input", { autocomplete: "off", ...attributes, oninput: (e) => (change(e.target.value), later()) }));
  const search = field("Search", { value: asked.query, maxlength: 10000, placeholder: first.examples[0] ?? "" }, (value) => ((asked.query = value), (before = null)));
  search.classList.add("wide");
  const context = first.reads.map((name) => field(name, { value: asked.context[name] ?? "" }, (value) => {
    if (value) asked.context[name] = value;
    else delete asked.context[name];
    before = null;
  }));
  const terms = make("div.bar");
  const result = make("div");
  fill(main,
    make("h1", title),
    make("p.quiet", "What would be shown for a search, at what price, and why. Nothing is logged, and what is changed here changes nothing on the server."),
    make("form.bar", { onsubmit: (e) => (e.preventDefault(), ask()) }, search, context, make("button.main", { type: "submit" }, "Take apart")),
    terms, result);

  function drawTerms() {
    const number = (name, text, most, step) => field(text, { type: "number", min: name === "places" ? 1 : 0, max: most, step, value: asked[name] ?? first.served[name], data: { term: name } }, (value) => set(name, value === "" ? undefined : Number(value)));
    const set = (name, value) => (asked[name] = value === first.served[name] ? undefined : value);
    const rule = select("Prices", ["gsp", "vcg", "first"], asked.rule ?? first.served.rule, (value) => (set("rule", value), later()));
    const slide = make("input", { type: "range", min: 0, max: 2, step: 0.05, value: asked.squashing ?? first.served.squashing, oninput: (e) => (set("squashing", Number(e.target.value)), (said.textContent = e.target.value), later()) });
    const said = make("b", String(slide.value));
    const reset = make("button", { onclick: () => (TERMS.forEach((name) => delete asked[name]), (asked.bids = {}), drawTerms(), ask()) }, "As served");
    fill(terms, rule, number("places", "Places", 100, 1), number("reserve", "Reserve (score)", 1e6, "any"),
      make("label", make("span", "Squashing s: ", said), slide), reset);
  }

  const changed = () => TERMS.some((name) => asked[name] !== undefined) || Object.keys(asked.bids).length > 0;
  const later = () => (clearTimeout(timer), (timer = setTimeout(ask, WAIT)));

  async function ask() {
    clearTimeout(timer);
    sent?.abort();
    sent = new AbortController();
    remember();
    if (!asked.query.trim()) return fill(result, empty());
    const base = { query: asked.query, context: asked.context, key: asked.key };
    const tried = { ...base, bids: asked.bids, ...(chosen && { ad: chosen }) };
    for (const name of TERMS) if (asked[name] !== undefined) tried[name] = asked[name];
    try {
      const found = await call("POST", "/v1/studio/xray", tried, sent.signal);
      if (!changed()) before = found;
      else before ??= await call("POST", "/v1/studio/xray", base, sent.signal);
      draw(found);
    } catch (error) {
      if (error.name === "AbortError") return;
      if (error.locked) throw error;
      fill(result, state(error.message, "bad"));
    }
  }

  function remember() {
    const kept = new URLSearchParams({ q: asked.query, key: asked.key });
    for (const [name, value] of Object.entries(asked.context)) kept.set(`with.${name}`, value);
    for (const [ad, bid] of Object.entries(asked.bids)) kept.set(`bid.${ad}`, bid);
    for (const name of TERMS) if (asked[name] !== undefined) kept.set(name, asked[name]);
    if (chosen) kept.set("ad", chosen);
    address(`xray?${kept}`);
  }

  function empty() {
    const tries = first.examples.map((text) => make("button.text", { onclick: () => ((search.querySelector("input").value = asked.query = text), (before = null), ask()) }, text));
    return make("div", state("Type what somebody searches for, or take one of these bid phrases:"), make("div.bar", tries));
  }

  function draw(found) {
    const focus = document.activeElement?.dataset?.bid;
    const about = `${whole(found.candidates.length)} of ${whole(first.n_ads)} ads match “${found.query}”; arm ${found.versions.arm}, click model ${found.versions.clicks}.`;
    const explored = found.terms.explore ? ` Scores are explored by ${found.terms.explore} with scale ${found.terms.scale}, by the draws of key ${asked.key}.` : "";
    const one = found.candidates.find((each) => each.ad === chosen) ?? found.candidates[0];
    fill(result,
      make("p.quiet.text", { role: "status" }, about + explored),
      found.candidates.length > 0 && picture(found),
      found.candidates.length > 0 && candidates(found),
      make("div.columns", one && detail(one), whyNot(found)),
    );
    if (focus !== undefined) result.querySelector(`[data-bid="${CSS.escape(focus)}"]`)?.focus();
  }

  const choose = (ad) => ((chosen = ad), ask());
  const label = (one) => one.title || one.advertiser || one.ad;

  // A bar is bid × q^s; the full part of it is what a click costs, in the same measure.
  function picture(found) {
    const rows = found.candidates.slice(0, 15);
    const most = Math.max(...rows.map((one) => one.score), found.terms.reserve, 1e-12);
    const wide = Math.max(320, Math.min(1100, (main.clientWidth || 800) - 8));
    const [high, left, letters] = [24, ...(wide < 600 ? [120, 15] : [190, 24])];
    const px = (value) => left + ((wide - left - 100) * value) / most;
    const made = svg("svg", { class: "bars", viewBox: `0 0 ${wide} ${rows.length * high + 22}`, width: wide, height: rows.length * high + 22, role: "img", "aria-label": "Scores by candidate and what each pays; the table has the numbers" });
    rows.forEach((one, i) => {
      const paid = one.place && one.bid ? (one.score * one.price) / one.bid : 0;
      const y = i * high + 2;
      const name = svg("text", { x: left - 8, y: y + 14, "text-anchor": "end" }, short(label(one), letters));
      made.append(svg("g", { class: one.place ? "c0" : "out" }, svg("title", {}, `${label(one)}: score ${fixed(one.score, 4)}`), name,
        svg("rect", { class: "score", x: left, y, width: Math.max(1, px(one.score) - left), height: high - 6, rx: 2 }),
        svg("rect", { class: "paid", x: left, y, width: Math.max(0, px(paid) - left), height: high - 6, rx: 2 }),
        svg("text", { x: px(one.score) + 6, y: y + 14 }, one.place ? `${one.place}. pays ${fixed(one.price)}` : short(one.outcome, 14))));
    });
    const [x, tall] = [px(found.terms.reserve), rows.length * high];
    if (found.terms.reserve > 0) made.append(svg("line", { class: "cursor", x1: x, x2: x, y1: 0, y2: tall }), svg("text", { x, y: tall + 16, "text-anchor": "middle" }, "reserve"));
    return make("figure", make("figcaption.quiet", `Score: bid × probability^${fixed(found.terms.squashing)}; the full colour is the part that is paid.`), make("div.scroll", made));
  }

  function candidates(found) {
    const was = new Map((before?.candidates ?? []).map((one) => [one.ad, one]));
    const head = ["#Place", "Ad", "Matched by", "#Bid", "#Click probability (± u)", "#Score", "#GSP price", "#VCG price", "What became of it"];
    const rows = found.candidates.map((one) => {
      const old = was.get(one.ad);
      const moved = old && old.place !== one.place && make("small", ` was ${old.place || "out"}`);
      const bid = make("input.number", { type: "number", min: 0, max: 1e6, step: "any", value: Number(one.bid.toFixed(4)), label: `Bid of ${label(one)}`, data: { bid: one.ad }, onchange: (e) => {
        const value = Number(e.target.value);
        if (e.target.value === "" || Math.abs(value - one.own_bid) < 1e-9) delete asked.bids[one.ad];
        else asked.bids[one.ad] = value;
        ask();
      } });
      const undo = one.ad in asked.bids && make("button.plain", { title: `Back to ${fixed(one.own_bid)}`, label: `Undo the bid of ${label(one)}`, onclick: () => (delete asked.bids[one.ad], ask()) }, "↺");
      const lacking = one.needed === null ? "" : `; needs a score above ${fixed(one.needed, 4)}`;
      return [
        [one.place || "–", moved],
        [make("button.plain.link", { "aria-pressed": String(one.ad === (chosen ?? found.candidates[0].ad)), onclick: () => choose(one.ad) }, label(one)), make("small", ` ${one.ad}${one.advertiser ? ` · ${one.advertiser}` : ""}`)],
        [one.phrase, " ", make("span.tag", one.match)],
        [undo, bid],
        [percent(one.probability, 2), make("small", ` ${percent(one.low, 1)} to ${percent(one.high, 1)}`)],
        fixed(one.score, 4),
        ...[one.gsp, one.vcg].map((price) => (price === null ? "–" : fixed(price))),
        one.place ? one.formula || "shown" : one.outcome + lacking,
      ];
    });
    const made = table("Candidates", head, rows);
    made.querySelectorAll("tbody tr").forEach((row, i) => row.classList.toggle("out", !found.candidates[i].place));
    return made;
  }

  function detail(one) {
    const most = Math.max(...one.shares.map((share) => Math.abs(share.amount)), 1e-9);
    const rows = one.shares.flatMap((share) => [
      [[make("b", share.signal), share.features.length === 1 && make("small", ` ${short(share.features[0][0], 80)}`)], bothWays(share.amount, most), signed(share.amount, 3), fixed(share.features.reduce((sum, each) => sum + each[2], 0), 3)],
      ...(share.features.length > 1 ? share.features : []).map(([value, amount, unsure]) => [make("small", `– ${short(value, 80)}`), "", signed(amount, 3), fixed(unsure, 3)]),
    ]);
    return make("section.card",
      make("h2.text", `Why ${percent(one.probability, 2)} for ${label(one)}`),
      make("p", `Shares of the log-odds add up to ${signed(one.log_odds, 3)}: ${percent(one.raw, 2)} before calibration, ${percent(one.probability, 2)} after. u(x) = ${fixed(one.uncertainty, 3)}: about how far one more example could move the log-odds.`),
      table("Shares of the log-odds", ["Signal and value", make("span.hidden-text", "bar"), "#log-odds", "#part of u(x)"], rows));
  }

  function whyNot(found) {
    const name = make("input", { value: chosen && !found.candidates.some((one) => one.ad === chosen) ? chosen : "", maxlength: 500, autocomplete: "off" });
    return make("section.card", make("h2", "Why is an ad not here?"),
      make("form.bar", { onsubmit: (e) => (e.preventDefault(), name.value.trim() && choose(name.value.trim())) }, make("label", "Name of the ad", name), make("button", { type: "submit" }, "Ask")),
      found.asked && make("p.text", { role: "status" }, `${chosen}: ${found.asked}`),
      make("p.quiet", "Negatives, phrases that do not match and higher bids keep ads from being candidates; the budget, the reserve, the floor and better scores keep candidates from being shown. A bid that is tried is that of the phrase by which the ad matched."));
  }

  drawTerms();
  await ask();
}

const short = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
