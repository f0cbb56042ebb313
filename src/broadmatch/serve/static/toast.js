// Short messages at the edge of the page; one about something that was deleted takes it back.

import { find, make } from "./dom.js";

const SECONDS = 8;

// toast("Removed “tea”.", { undo: () => … })
export function toast(text, { undo } = {}) {
  const room = find("#toasts");
  const gone = () => shown.remove();
  const back = () => (gone(), undo());
  const shown = make("div.toast", make("span.text", text));
  if (undo) shown.append(make("button", { onclick: back }, "Undo"));
  shown.append(make("button.plain", { label: "Dismiss", onclick: gone }, "×"));
  while (room.children.length > 2) room.firstChild.remove();
  room.append(shown);
  let left = setTimeout(gone, 1000 * SECONDS);
  // What is being read or reached for stays.
  for (const on of ["pointerenter", "focusin"]) shown.addEventListener(on, () => clearTimeout(left));
  for (const off of ["pointerleave", "focusout"])
    shown.addEventListener(off, () => (clearTimeout(left), (left = setTimeout(gone, 1000 * SECONDS))));
}
