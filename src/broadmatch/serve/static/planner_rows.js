// The phrases of a plan as a table, by theme: choose, edit, bid, and see what a bid would bring.

import { choices, fill, fixed, make, percent, whole } from "./dom.js";
import { spark } from "./spark.js";

const COLUMNS = [
  ["", "chosen"], ["Phrase", "phrase"], ["Match", "match"], ["Found", "source"], ["Score", "number"], ["Searches a month", "number"],
  ["Comp., 0–100", "number"], ["Top bids, 20–80 %", "number"], ["Your bid", "number"], ["Clicks a month", "number"], ["Cost a month", "number"], ["", "never"],
];
export const MATCHES = ["broad", "phrase", "exact"];
const ABSENT = "The log does not have it.";
export const SORTS = {
  score: ["Score", (one) => one.score],
  searches: ["Searches", (one) => one.facts?.searches ?? -1],
  competition: ["Competition, low first", (one) => -(one.facts?.competition ?? 101)],
  price: ["Top bid, low first", (one) => -(one.facts?.bid_low ?? 1e9)],
};

// What a bid brings in a month: the highest rung below it; null if the log does not say.
export function atBid(facts, bid) {
  if (!facts?.ladder || !(bid > 0)) return null;
  let found = [0, 0, 0];
  for (const rung of facts.ladder) if (rung[0] < bid) found = rung;
  return { clicks: found[1], cost: found[2] };
}

// The bid of a phrase: one's own, that of the whole plan, or a cent above the low bid of the top of the page.
export function bidOf(one, plan) {
  const own = plan.edits[one.phrase]?.bid ?? plan.bid;
  return (own ?? "") !== "" ? Number(own) : one.facts?.bid_low ? (Math.floor(100 * one.facts.bid_low + 1e-6) + 1) / 100 : null;
}

const number = (value, text, label) => make("td.number", { data: { label }, title: Number.isFinite(value) ? undefined : ABSENT }, text);

// Rows for phrases; `on` has chosen, changed, why and never.
export function phraseTable(phrases, plan, reply, on) {
  const rows = phrases.map((one) => phraseRow(one, plan, reply, on));
  const table = make("table.plan", make("caption.hidden-text", "Phrases by theme"),
    make("thead", make("tr", COLUMNS.map(([text, kind]) => make("th", { scope: "col", class: kind },
      text || make("span.hidden-text", kind === "chosen" ? "Take" : "Never"))))));
  const themes = Map.groupBy(rows, (row) => row.one.theme);
  const order = [...themes].sort(([a], [b]) => (a === "") - (b === ""));
  for (const [theme, members] of order) table.append(group(theme, members, on));
  return { element: table, rows };
}

function group(theme, rows, on) {
  const box = make("input", { type: "checkbox", label: `Take all of ${theme || "others"}`, onchange: () => on.chosen(rows.map((row) => row.one), box.checked) });
  const searches = rows.map((row) => row.one.facts?.searches).filter(Number.isFinite);
  const told = searches.length ? ` · ${whole(searches.reduce((a, b) => a + b, 0))} searches` : "";
  for (const row of rows) row.group = { box, rows };
  return make("tbody",
    make("tr.theme", make("td", box),
      make("th", { colspan: COLUMNS.length - 1, scope: "rowgroup" }, make("span.text", theme || "others"), make("small", ` ${rows.length} phrase${rows.length > 1 ? "s" : ""}${told}`))),
    rows.map((row) => row.element));
}

function phraseRow(one, plan, reply, on) {
  const facts = one.facts, edit = () => plan.edits[one.phrase] ?? {};
  const box = make("input", { type: "checkbox", label: `Take ${one.phrase}`, onchange: () => on.chosen([one], box.checked) });
  const name = make("button.plain.phrase.text", { title: "Why this phrase?", onclick: () => on.why(one, name) });
  const pencil = make("button.plain.small", { label: `Edit ${one.phrase}`, title: "Edit", onclick: rename }, "✎");
  const match = make("select", { label: `Match type of ${one.phrase}`, onchange: () => on.changed(one, { match: match.value }) },
    choices(MATCHES));
  const bid = make("input", { type: "number", min: "0.01", step: "0.01", inputmode: "decimal", label: `Bid on ${one.phrase}`, oninput: () => on.changed(one, { bid: bid.value }) });
  const clicks = number(undefined, "–", "Clicks a month"), cost = number(undefined, "–", "Cost a month");
  const holder = make("div", name, pencil), phrase = make("td.phrase", holder);
  const never = make("button.plain.small", { label: `Never ${one.phrase}`, title: "Never want it", onclick: () => on.never(one) }, "×");

  function rename() {
    const field = make("input", { value: edit().name ?? one.phrase, label: `New wording of ${one.phrase}` });
    const done = (keep) => {
      if (!field.isConnected) return;
      const text = field.value.trim().slice(0, 200);
      fill(holder, name, pencil);
      if (keep && text) on.changed(one, { name: text === one.phrase ? undefined : text });
      pencil.focus();
    };
    field.addEventListener("keydown", (e) => {
      if (e.key !== "Enter" && e.key !== "Escape") return;
      e.preventDefault(); // or the key would press the button that gets the focus
      done(e.key === "Enter");
    });
    field.addEventListener("blur", () => done(true));
    fill(holder, field);
    field.select();
  }

  const bar = make("span.meter", { "aria-hidden": "true" }, make("i"));
  bar.firstChild.style.width = `${Math.round(100 * one.score)}%`;
  const range = Number.isFinite(facts?.bid_low) ? `${fixed(facts.bid_low)}–${fixed(facts.bid_high)}` : "–";
  const about = reply.unit ? `${facts?.series?.length} ${reply.unit}s from ${reply.first}` : "";
  const row = make("tr",
    make("td.chosen", box), phrase,
    make("td", { data: { label: "Match" } }, match),
    make("td.found", { data: { label: "Found" } }, one.sources.map((source) => make("span", { class: `tag ${source}` }, source))),
    make("td.number", { data: { label: "Score" } }, percent(one.score, 0), bar),
    number(facts?.searches, [facts?.series?.length > 1 && spark(facts.series, about), " ", whole(facts?.searches)], "Searches a month"),
    number(facts?.competition, whole(facts?.competition), "Competition"),
    number(facts?.bid_low, range, "Top bids"),
    make("td.number", { data: { label: "Your bid" } }, bid), clicks, cost,
    make("td.never", never));

  function update(taken) {
    box.checked = taken;
    row.classList.toggle("taken", taken);
    name.textContent = edit().name ?? one.phrase;
    match.value = edit().match ?? plan.match;
    const amount = bidOf(one, plan), found = atBid(facts, amount);
    if (document.activeElement !== bid) bid.value = amount === null ? "" : amount.toFixed(2);
    clicks.textContent = found ? (found.clicks < 10 ? fixed(found.clicks, 1) : whole(found.clicks)) : "–";
    cost.textContent = found ? fixed(found.cost) : "–";
    for (const cell of [clicks, cost]) cell.title = found ? "" : ABSENT;
  }
  return { one, element: row, update };
}
