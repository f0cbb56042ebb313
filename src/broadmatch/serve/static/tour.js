// Four steps through the studio, on first use; it stands beside the page, and can be dismissed and opened again.

import { fill, find, make } from "./dom.js";

const KEY = "broadmatch-tour";
const STEPS = [
  ["planner", "Plan phrases for a page", "Paste a page, its address or some words. Phrases come as you type, with why, searches, bids and what a bid would bring. Take the ones you like to Google Ads, Microsoft or a spreadsheet."],
  ["xray", "Take an auction apart", "Ask a query and see every ad that could be shown: by which phrase, with which probability, at which price. Change a bid and watch it move."],
  ["grid", "See every slice at once", "GridViz colours each model on each slice of the traffic by its change against a baseline, so that no loss hides in an average."],
  ["models", "Know what is served", "Models, Market and Judge show what answers and since when, what a change did to the market, and let people grade phrases. Signals says who consumes what. Press ? for all keys."],
];

export const tourSeen = () => localStorage.getItem(KEY) === "seen";

export function showTour() {
  find("#tour")?.remove();
  const before = document.activeElement;
  const card = make("section.card", { id: "tour", role: "dialog", "aria-labelledby": "tour-title" });
  const mark = (page) => [...find("#pages").children].forEach((link) => link.classList.toggle("pointed", link.dataset.page === page));
  const close = () => {
    localStorage.setItem(KEY, "seen");
    mark("");
    card.remove();
    if (before?.isConnected) before.focus();
  };
  const step = (at, forward = true) => {
    const [page, title, text] = STEPS[at];
    const last = at === STEPS.length - 1;
    const back = make("button", { disabled: at === 0, onclick: () => step(at - 1, false) }, "Back");
    const next = make("button.main", { onclick: () => (last ? close() : step(at + 1)) }, last ? "Done" : "Next");
    mark(page);
    fill(card,
      make("button.plain.close", { label: "Close the tour", onclick: close }, "×"),
      make("small", `${at + 1} of ${STEPS.length}`),
      make("h2", { id: "tour-title" }, title),
      make("p", text),
      make("div.bar", back, next),
    );
    (forward || at === 0 ? next : back).focus({ preventScroll: true });
  };
  card.addEventListener("keydown", (e) => e.key === "Escape" && close());
  document.body.append(card);
  step(0);
}
