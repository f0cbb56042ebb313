// Tables that scroll, choices, bars to both sides, and moments, as the pages of engineers show them.

import { make } from "./dom.js";

export const day = (seconds) => new Date(1000 * seconds).toISOString().slice(0, 16).replace("T", " ");

// table("Arms", [["Arm", "text"], ["Share", "number"]], rows of cells)
export const table = (label, head, rows) => make("div.scroll", { tabindex: 0, role: "region", "aria-label": label }, make("table",
  make("thead", make("tr", head.map(([text, kind]) => make("th", { class: kind }, text)))),
  make("tbody", rows.map((cells) => make("tr", cells.map((cell, i) => make("td", { class: head[i][1] }, cell)))))));

// A bar to the left or right of the middle; as long as half the room for `most`.
export function bothWays(amount, most) {
  const part = make("i", { class: amount < 0 ? "less" : "more" });
  part.style.width = `${(50 * Math.abs(amount)) / most}%`;
  return make("span.both", { "aria-hidden": "true" }, part);
}

export const select = (text, options, value, onchange) => make("label", text, make("select", { onchange: (event) => onchange(event.target.value) },
  options.map((one) => make("option", { value: one, selected: one === value }, one))));
