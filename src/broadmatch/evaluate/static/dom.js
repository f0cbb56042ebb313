// Elements from plain data: every text becomes text, never markup, so that no phrase, page or slice can run as script.

// make("td.number", { title: "…", onclick: f, data: { row: 3 } }, "text", child, …); a button sends no form unless it says so.
export function make(selector, ...children) {
  const [tag, ...classes] = selector.split(".");
  const made = document.createElement(tag);
  const given = children[0]?.constructor === Object ? children.shift() : {};
  if (classes.length) made.className = classes.join(" ");
  if (tag === "button") made.type = "button";
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "data") Object.assign(made.dataset, value);
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name in made && name !== "list" && name !== "form" && typeof value !== "string") made[name] = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...shown(children));
  return made;
}

// Fill an element anew; what is absent (null, undefined, false) is left out, here and in `make`.
export const fill = (element, ...children) => element.replaceChildren(...shown(children));
const shown = (children) => children.flat(Infinity).filter((child) => child !== undefined && child !== null && child !== false);

export const find = (selector, within = document) => within.querySelector(selector);

const grouped = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

// Numbers as people read them; what is not known is a dash.
export const whole = (value) => (Number.isFinite(value) ? grouped.format(value) : "–");
export const fixed = (value, digits = 2) => (Number.isFinite(value) ? value.toFixed(digits) : "–");
export const percent = (value, digits = 1) => (Number.isFinite(value) ? `${(100 * value).toFixed(digits)} %` : "–");
export const signed = (value, digits = 2) => (Number.isFinite(value) ? (value > 0 ? "+" : "") + value.toFixed(digits) : "–");

// What stands where something is being loaded, where nothing is, and where something went wrong; each says what to do.
// What stands in `backticks` is something to type.
export const state = (text, kind = "") => make("p", { class: `state ${kind}`, role: kind === "bad" ? "alert" : "status" }, coded(text));
export const coded = (text) => text.split("`").map((part, i) => (i % 2 ? make("code", part) : part));

// Save something as a file.
export function save(blob, name) {
  const href = URL.createObjectURL(blob);
  make("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 1000);
}
