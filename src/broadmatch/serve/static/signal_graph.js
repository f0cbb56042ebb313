// The lineage around a signal, in layers from left to right; pointing at a node, or focusing it in the list, shows its ties.

import { call } from "./api.js";
import { fill, make, svg, whole } from "./dom.js";
import { AT, clipped, link, tag } from "./signals.js";

const [WIDE, HIGH, STEP, GAP, TOP, LOW] = [150, 20, 24, 60, 28, 900];
const WORDS = { training: "trains with", serving: "serves with", replacement: "replaces", cross: "is made of" };
const short = (text) => ([...text.slice(0, 80)].length > 20 ? `${[...text.slice(0, 80)].slice(0, 19).join("")}…` : text);

export async function show(room, name) {
  const { layers, edges, n_models: many } = await call("POST", `${AT}/graph`, { name });
  const [nodes, heads] = place(layers);
  const [width, height] = [Math.max(...nodes.map((one) => one.x)) + WIDE + 8, Math.max(...nodes.map((one) => one.y)) + STEP];
  const drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": "Lineage; the list beside it says the same" });
  const lines = edges.map(([from, to, kind]) => svg("path", { class: `edge ${kind}`, d: curve(nodes[from], nodes[to]) }));
  const boxes = nodes.map((node, i) => {
    const box = svg("svg", { class: `node ${node.model ? "" : node.group}`, x: node.x, y: node.y, width: WIDE, height: HIGH }, svg("rect", { x: 0.5, y: 0.5, width: WIDE - 1, height: HIGH - 1, rx: 4 }), svg("text", { x: 6, y: 14 }, short(node.name)));
    box.addEventListener("pointerenter", () => mark(i));
    box.addEventListener("click", () => items[i].firstChild.focus());
    return box;
  });
  const items = nodes.map((node, i) => {
    const ties = edges.filter(([, to]) => to === i).slice(0, 5).map(([from, , kind]) => `${WORDS[kind]} ${nodes[from].name.slice(0, 60)}`).join(", ");
    const named = node.model ? make("button.clip", { title: node.name.slice(0, 500) }, node.name.slice(0, 300)) : clipped(node.name, link(node.name, "graph"));
    named.addEventListener("focus", () => mark(i));
    named.addEventListener("blur", () => mark(-1));
    return make("li", { onpointerenter: () => mark(i) }, named, node.model ? clipped(node.group || "no team") : tag(node.group), ties && make("small.clip", ties));
  });
  const leave = () => mark(items.findIndex((item) => item.contains(document.activeElement)));

  function mark(at) {
    const tied = new Set([at, ...edges.flatMap(([from, to], i) => (lines[i].classList.toggle("on", from === at || to === at) ? [from, to] : []))]);
    drawing.classList.toggle("marked", at >= 0);
    for (const all of [boxes, items]) all.forEach((one, i) => one.classList.toggle("on", at >= 0 && tied.has(i)));
  }

  const filter = (e) => items.forEach((item, i) => (item.hidden = !`${nodes[i].name} ${nodes[i].group}`.toLowerCase().includes(e.target.value.toLowerCase())));
  const shown = nodes.filter((node) => node.model).length;
  drawing.append(...lines, ...heads.map(([x, y, text]) => svg("text", { class: "head", x, y }, text)), ...boxes);
  drawing.addEventListener("pointerleave", leave);
  fill(room,
    make("p.quiet", `${whole(nodes.length - shown)} signals, and ${shown < many ? `${whole(shown)} of ` : ""}${whole(many)} models that consume them now, by team. Full lines: training and serving; dashed: made of it; dotted: replaces it.`),
    make("div.lineage", make("div.scroll.card", { tabindex: 0, role: "region", label: "Drawing" }, drawing),
      make("section.card", make("label", "Only", make("input", { type: "search", oninput: filter })), make("ul.plain", { label: "Signals and models", onpointerleave: leave }, items))));
}

// A column for each layer, as many as it takes for models, which stand under the names of their teams.
function place(layers) {
  const [nodes, heads] = [[], []];
  let x = 8;
  for (const [title, layer] of layers.filter(([, all]) => all.length)) {
    const model = title === "models";
    let [y, team] = [TOP, null];
    heads.push([x, 16, title]);
    for (const node of layer) {
      if (model && y > LOW) [x, y, team] = [x + WIDE + 24, TOP, null];
      if (model && node.group !== team) heads.push([x, y + 15, short(node.group || "no team")]), (y += STEP), (team = node.group);
      nodes.push({ ...node, model, x, y });
      y += STEP;
    }
    x += WIDE + GAP;
  }
  return [nodes, heads];
}

// From the right of one to the left of the other; within a layer, around on the right.
function curve(from, to) {
  const [x0, y0, y1] = [from.x + WIDE, from.y + HIGH / 2, to.y + HIGH / 2];
  const [x1, way] = to.x > from.x ? [to.x, -1] : [to.x + WIDE, 1];
  const bend = way < 0 ? Math.min(90, (x1 - x0) / 2) : GAP / 2;
  return `M${x0} ${y0}C${x0 + bend} ${y0} ${x1 + way * bend} ${y1} ${x1} ${y1}`;
}
