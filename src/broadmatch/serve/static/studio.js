// The studio's frame: which page the address asks for, as #planner?text=…, and what all pages share.

import { apiKey } from "./api.js";
import { fill, find, make, select, state } from "./dom.js";
import { askKey, showHelp, singleKeys } from "./help.js";
import { THEMES, nextTheme, setTheme, theme } from "./theme.js";
import { showTour, tourSeen } from "./tour.js";

// A page is a module with `title` and `show(main, query)`: `query` is the URLSearchParams after the "?" of the address.
const PAGES = [
  ["planner", "Planner"],
  ["xray", "Auction"],
  ["grid", "GridViz"],
  ["models", "Models"],
  ["market", "Market"],
  ["judge", "Judge"],
  ["signals", "Signals"],
];

const asked = () => {
  const [name, ...query] = location.hash.slice(1).split("?");
  return [PAGES.some(([page]) => page === name) ? name : PAGES[0][0], query.join("?")];
};

// Each page gets a room of its own: one that loads late writes where nobody looks.
async function show(moved = true) {
  const [chosen, query] = asked();
  for (const link of find("#pages").children) link.ariaCurrent = link.dataset.page === chosen ? "page" : null;
  const room = make("div", { class: `page-${chosen}` }, state("Loading …"));
  const main = find("#page");
  fill(main, room);
  try {
    const page = await import(`./${chosen}.js`);
    if (!room.isConnected) return;
    document.title = `${page.title} · broadmatch`;
    main.setAttribute("aria-label", page.title);
    await page.show(room, new URLSearchParams(query));
  } catch (error) {
    fill(room, refused(error));
  }
  if (moved && room.isConnected && !room.contains(document.activeElement)) main.focus({ preventScroll: true });
}

function refused(error) {
  if (!error.locked) return state(error.message, "bad");
  const ask = make("button.main", { onclick: () => askKey().then(() => show()) }, "Give a key");
  return make("div", state(error.message, "bad"), make("div.bar", ask));
}

function tools() {
  const choice = select("Theme", THEMES, theme(), setTheme);
  choice.classList.add("row");
  addEventListener("theme", () => (choice.lastChild.value = theme()));
  const key = make("button.plain", { hidden: !apiKey.get(), onclick: () => askKey().then(() => show()) }, "Key");
  addEventListener("unauthorized", () => (key.hidden = false));
  const help = make("button.plain", { title: "Keys and help (?)", label: "Keys and help", onclick: () => showHelp(PAGES) }, "?");
  find("#tools").append(choice, key, help);
}

function onKey(e) {
  const typing = e.target.closest?.("input, select, textarea, [contenteditable]") || document.querySelector("dialog[open]");
  if (typing || e.ctrlKey || e.metaKey || e.altKey || !singleKeys()) return;
  const page = PAGES[Number(e.key) - 1];
  if (page) location.hash = page[0];
  else if (e.key === "t") nextTheme();
  else if (e.key === "?") showHelp(PAGES);
  else if (e.key === "/") find("#page input, #page textarea, #page select")?.focus();
  else return;
  e.preventDefault();
}

setTheme(theme());
find("#pages").append(...PAGES.map(([page, text]) => make("a", { href: `#${page}`, data: { page } }, text)));
tools();
addEventListener("hashchange", () => show());
addEventListener("keydown", onKey);
find(".skip").addEventListener("click", (e) => (e.preventDefault(), find("#page").focus()));
const first = location.hash === "" && !tourSeen();
show(false).then(() => first && showTour());
