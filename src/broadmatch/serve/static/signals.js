// Signals: who consumes what, and may they: a list, the board of deprecations; a signal's page and lineage come when asked for.

import { call } from "./api.js";
import { address, fill, make, select, state, styled, table, whole } from "./dom.js";

export const title = "Signals";
export const AT = "/v1/studio/signals";
const MANY = 50;
const ORDERS = [["name", "name"], ["newest", "newest first"], ["owner", "owner"], ["due", "due first"]];

// What people wrote, cut to a line, as text or as a link; the server's word for whether it may be consumed.
export const clipped = (text, href) => make(href ? "a.clip" : "span.clip", { title: text.slice(0, 500), href }, text.slice(0, 300));
export const link = (name, tab) => `#signals?${new URLSearchParams({ name, ...(tab && { tab }) })}`;
export const named = (name) => clipped(name, link(name));
export const tag = (status) => make("span", { class: `tag ${{ "white-listed": "good", deprecated: "bad", retired: "bad" }[status] ?? ""}` }, status);

export async function show(main, query) {
  await styled("signals.css");
  const name = query.get("name");
  const tab = name ? (query.get("tab") === "graph" ? "graph" : "one") : query.get("tab") === "board" ? "board" : "list";
  const tabs = [["list", "All signals", "#signals"], ["board", "Deprecations", "#signals?tab=board"], ...(name ? [["one", name, link(name)], ["graph", "Lineage", link(name, "graph")]] : [])];
  const room = make("div", state("Loading …"));
  fill(main, make("h1", title),
    make("nav.tabs", { label: "Parts of this page" }, tabs.map(([key, text, href]) => make("a.clip", { href, "aria-current": key === tab ? "true" : undefined }, text.slice(0, 99)))), room);
  try {
    if (name) await (await import(tab === "one" ? "./signal.js" : "./signal_graph.js")).show(room, name);
    else await { list, board }[tab](room, query);
  } catch (error) {
    if (error.locked) throw error;
    fill(room, state(error.message, error.status === 404 ? "" : "bad"));
  }
}

function pager(total, from, shown, go) {
  const turn = (text, to, off) => make("button", { disabled: off, onclick: () => go(to) }, text);
  return make("div.bar", make("span.quiet", { role: "status" }, total ? `${whole(from + 1)} to ${whole(from + shown)} of ${whole(total)}` : "None"),
    total > MANY && [turn("Back", Math.max(0, from - MANY), from === 0), turn("Next", from + MANY, from + shown >= total)]);
}

async function list(room, query) {
  const asked = { order: "name", ...Object.fromEntries(query) };
  const [found, statuses] = [make("div"), make("div")];
  let asking, waits;
  const typed = (key) => (e) => (clearTimeout(waits), (waits = setTimeout(() => change({ [key]: e.target.value }), 150)));
  const field = (label, key) => make("label", label, make("input", { type: "search", maxlength: 10000, value: asked[key] ?? "", oninput: typed(key) }));
  fill(room, make("div.bar", field("Name, owner or description", "text"), field("Owner", "owner"), statuses, select("Sort", ORDERS, asked.order, (order) => change({ order }))), found);

  function change(changes) {
    Object.assign(asked, { offset: 0 }, changes);
    address(`signals?${new URLSearchParams(Object.entries(asked).filter(([, value]) => value))}`);
    return draw().catch((error) => error.name !== "AbortError" && fill(found, state(error.message, "bad")));
  }

  async function draw() {
    asking?.abort();
    asking = new AbortController();
    const from = Number(asked.offset) || 0;
    const answer = await call("POST", AT, { text: asked.text ?? "", owner: asked.owner ?? "", status: asked.status || null, order: asked.order, offset: from, limit: MANY }, asking.signal);
    const counts = Object.entries(answer.by_status);
    const all = counts.reduce((sum, [, n]) => sum + n, 0);
    if (!statuses.contains(document.activeElement)) fill(statuses, select("Status", [["", `all (${whole(all)})`], ...counts.map(([one, n]) => [one, `${one} (${whole(n)})`])], asked.status ?? "", (status) => change({ status })));
    const rows = answer.found.map((one) => [named(one.name), tag(one.status), clipped(one.owner || "nobody"), one.kind || "–", whole(one.open), one.by_date ?? "–", clipped(one.about)]);
    fill(found, pager(answer.total, from, rows.length, (offset) => change({ offset })),
      rows.length ? table("Signals", ["Signal", "~Status", "Owner", "~Kind", "#Models", "~Due", "What it is"], rows)
        : state(asked.text || asked.owner || asked.status ? "No signal is like that; ask for less." : "The index is empty. `broadmatch signals add` adds a signal; learners that run with `--signals` report theirs."));
  }
  await draw();
}

async function board(room, query) {
  const from = Number(query.get("offset")) || 0;
  const answer = await call("POST", `${AT}/board`, { offset: from, limit: MANY });
  const go = (offset) => (query.set("offset", offset), address(`signals?${query}`), board(room, query));
  if (!answer.total) return fill(room, state("Nothing is deprecated. A signal’s page deprecates it, or `broadmatch signals deprecate A --use B --by DATE`."));
  const rows = answer.found.map((one) => [
    named(one.signal), one.overdue ? make("b.bad", `overdue ${one.by_date ?? ""}`) : one.by_date ?? "no date", whole(one.open),
    one.open ? [one.teams.map(([team, n]) => make("span.tag.clip", `${team || "no team"}: ${whole(n)}`)), one.n_teams > one.teams.length && ` and ${one.n_teams - one.teams.length} more`] : make("span.good", "nobody: it can be retired"),
    `${whole(one.done)} of ${whole(one.open + one.done)}`, one.replacement ? named(one.replacement) : "–", tag(one.status), clipped(one.owner || "nobody"),
  ]);
  fill(room, make("p.quiet", `What is deprecated, or retired and still consumed; ${whole(answer.overdue)} overdue. A model that reports without the signal has replaced it.`),
    pager(answer.total, from, rows.length, go), table("Deprecations", ["Signal", "~Due", "#Open", "Waits for", "#Done", "Use instead", "~Status", "Owner"], rows));
}
