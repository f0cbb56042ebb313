// Elements from plain data: every text becomes text, never markup, so that no phrase, page or slice can run as script.

// make("td.number", { label: "what it is called", onclick: f, data: { row: 3 } }, "text", child, …): `label` is the
// aria-label; a button sends no form unless it is of type "submit".
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
    else made.setAttribute(name === "label" ? "aria-label" : name, value === true ? "" : value);
  }
  made.append(...shown(children));
  return made;
}

export function svg(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== undefined) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// Fill an element anew; what is absent (null, undefined, false) is left out, here and in `make`.
export const fill = (element, ...children) => element.replaceChildren(...shown(children));
const shown = (children) => children.flat(Infinity).filter((child) => child !== undefined && child !== null && child !== false);

// What a page shows stands in the address, without a step back for each change.
export const address = (text) => history.replaceState(null, "", `#${text}`);

export const find = (selector, within = document) => within.querySelector(selector);

const grouped = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

// Numbers as people read them; what is not known is a dash.
export const whole = (value) => (Number.isFinite(value) ? grouped.format(value) : "–");
export const fixed = (value, digits = 2) => (Number.isFinite(value) ? value.toFixed(digits) : "–");
export const percent = (value, digits = 1) => (Number.isFinite(value) ? `${(100 * value).toFixed(digits)} %` : "–");
export const signed = (value, digits = 2) => (Number.isFinite(value) ? (value > 0 ? "+" : "") + value.toFixed(digits) : "–");

export const clamp = (value, low, high) => Math.max(low, Math.min(high, value));

// What canvases are drawn with: pixels for each of the page, and the page's font.
export const dotsOf = () => Math.min(2, window.devicePixelRatio || 1);
export const FONT = `system-ui, "Segoe UI", Roboto, sans-serif`;

// What stands where something is being loaded, where nothing is, and where something went wrong; each says what to do.
// What stands in `backticks` is something to type.
export const state = (text, kind = "") => make("p", { class: `state ${kind}`, role: kind === "bad" ? "alert" : "status" }, coded(text));
export const coded = (text) => text.split("`").map((part, i) => (i % 2 ? make("code", part) : part));

// Styles of a page that is opened late.
export const styled = (file) => find(`link[href="/static/${file}"]`) ?? new Promise((done) => document.head.append(make("link", { rel: "stylesheet", href: `/static/${file}`, onload: done, onerror: done })));

export function save(blob, name) {
  const href = URL.createObjectURL(blob);
  make("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 1000);
}

// table("Arms", ["Arm", "#Share", "~Since"], rows of cells): # is before the head of numbers, ~ of what is not broken.
export function table(label, head, rows) {
  const kinds = head.map((text) => ({ "#": "number", "~": "short" })[text[0]] ?? (text.at ? "text" : ""));
  const heads = head.map((text, i) => make("th", { scope: "col", class: kinds[i] }, text.replace?.(/^[#~]/, "") ?? text));
  const lines = rows.map((cells) => cells.nodeType ? cells : make("tr", cells.map((cell, i) => (cell?.tagName === "TH" ? cell : make("td", { class: kinds[i] }, cell)))));
  return make("div.scroll", { tabindex: 0, role: "region", label }, make("table", make("thead", make("tr", heads)), make("tbody", lines)));
}

// options: texts, or [value, text]
export const select = (text, options, value, onchange) => make("label", text, make("select", { onchange: (e) => onchange(e.target.value) }, choices(options, value)));
export const choices = (options, value) => options.map((one) => make("option", { value: [one].flat()[0], selected: [one].flat()[0] === value }, [one].flat().at(-1)));
