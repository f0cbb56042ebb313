// Dialogs of the frame: keys and help, and the API key where the server asks for one.

import { apiKey } from "./api.js";
import { make } from "./dom.js";
import { showTour } from "./tour.js";

const KEYS = "broadmatch-keys";
export const singleKeys = () => localStorage.getItem(KEYS) !== "off";

function dialog(title, ...children) {
  const shown = make("dialog.card", { label: title }, make("h2", title), ...children);
  shown.addEventListener("close", () => shown.remove());
  shown.addEventListener("click", (e) => e.target === shown && shown.close());
  document.body.append(shown);
  shown.showModal();
  return shown;
}

export function showHelp(pages) {
  const keys = [...pages.map(([, text], i) => [i + 1, text]), ["/", "To the first field of the page"], ["t", "Theme: system, light, dark"], ["?", "This help"], ["Esc", "Close what is open"]];
  const rows = keys.map(([key, what]) => make("tr", make("td", make("kbd", key)), make("td", what)));
  const toggle = (e) => localStorage.setItem(KEYS, e.target.checked ? "on" : "off");
  const shown = dialog(
    "Keys",
    make("table", make("tbody", rows)),
    make("label.row", make("input", { type: "checkbox", checked: singleKeys(), onchange: toggle }), "Single keys do this"),
    make("div.bar",
      make("button", { onclick: () => (shown.close(), showTour()) }, "Show the tour"),
      make("a", { href: "/try" }, "Try the API"),
      make("button.main", { onclick: () => shown.close() }, "Close")),
  );
}

// Resolves when a key was given, or the dialog closed.
export function askKey(said = "") {
  return new Promise((done) => {
    const field = make("input", { type: "password", autocomplete: "off", value: apiKey.get(), required: true });
    const save = (e) => (e.preventDefault(), apiKey.set(field.value.trim()), shown.close());
    const shown = dialog(
      "API key",
      make("p", said || "This server asks for a key. It stays in this tab; `broadmatch keys add FOLDER` makes one."),
      make("form", { method: "dialog", onsubmit: save },
        make("label", "Key", field),
        make("div.bar", make("button.main", { type: "submit" }, "Use it"))),
    );
    shown.addEventListener("close", done);
    field.focus();
  });
}
