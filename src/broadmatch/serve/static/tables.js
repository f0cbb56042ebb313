// Bars to both sides, and moments, as the pages of engineers show them.

import { make } from "./dom.js";

export const day = (seconds) => new Date(1000 * seconds).toISOString().slice(0, 16).replace("T", " ");

// A bar to the left or right of the middle; as long as half the room for `most`.
export function bothWays(amount, most) {
  const part = make("i", { class: amount < 0 ? "less" : "more" });
  part.style.width = `${(50 * Math.abs(amount)) / most}%`;
  return make("span.both", { "aria-hidden": "true" }, part);
}
