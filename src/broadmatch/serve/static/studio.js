// The studio's frame: which page the address asks for, as #planner?text=…, and what all pages share.

import { find, make, state } from "./dom.js";

// A page is a module with `title` and `show(main, query)`: `query` is the URLSearchParams after the "?" of the address.
const PAGES = [
  ["planner", "Planner"],
  ["xray", "Auction"],
  ["grid", "GridViz"],
  ["models", "Models"],
  ["market", "Market"],
  ["judge", "Judge"],
];

async function show() {
  const [name, query = ""] = location.hash.slice(1).split("?", 2);
  const chosen = PAGES.some(([page]) => page === name) ? name : PAGES[0][0];
  for (const link of find("#pages").children) {
    if (link.dataset.page === chosen) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const main = find("#page");
  main.replaceChildren(state("Loading …"));
  try {
    const page = await import(`./${chosen}.js`);
    document.title = `${page.title} · broadmatch`;
    await page.show(main, new URLSearchParams(query));
  } catch (error) {
    main.replaceChildren(state(error.message, "bad"));
  }
}

find("#pages").append(...PAGES.map(([page, text]) => make("a", { href: `#${page}`, data: { page } }, text)));
addEventListener("hashchange", show);
show();
