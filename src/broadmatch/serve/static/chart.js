// Charts as SVG: axes with units, lines with bands or points with intervals; read by mouse, by keyboard, and as a table.

import { clamp, fill, make, svg, table } from "./dom.js";

const [LEFT, RIGHT, TOP, BOTTOM] = [58, 14, 10, 40];
const DASHES = [undefined, "7 4", "2 4", "9 3 2 3", "14 5", "1 2"];

// Round numbers that part a range into about n steps.
function ticks(low, high, n = 5) {
  const rough = (high - low) / n || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5].find((one) => one * power >= rough) ?? 10);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) found.push(i * step);
  return found;
}

const bounds = (values, zero) => {
  const known = values.filter(Number.isFinite);
  if (!known.length) return [0, 1];
  let [low, high] = [Math.min(...known), Math.max(...known)];
  if (zero) [low, high] = [Math.min(low, 0), Math.max(high, 0)];
  const room = high > low ? 0.04 * (high - low) : Math.abs(high) || 1;
  return [zero && low === 0 ? 0 : low - room, high + room];
};

// chart(host, { label, x: { label, text }, y: { label, text }, series: [{ name, points: [[x, y, low, high, n], …] }],
//   kind: "lines" | "points", diagonal, zero, height }): `text` turns numbers into words, y null is a gap.
export function chart(host, given) {
  const { label, x, y, series, kind = "lines", height = 260 } = given;
  const room = make("div.chart");
  const tip = make("div.tip", { role: "status", hidden: true });
  const all = series.flatMap((one) => one.points);
  const xs = [...new Set(all.map((point) => point[0]))].sort((a, b) => a - b);
  let [x0, x1] = bounds(xs, given.diagonal);
  const [y0, y1] = bounds(all.flatMap((point) => point.slice(1, 4)).concat(given.diagonal ? [0, x1] : []), given.zero || given.diagonal);
  if (kind === "lines" && xs.length > 1) [x0, x1] = [xs[0], xs.at(-1)];
  let at = -1;
  let drawn;

  function draw() {
    const width = Math.max(260, host.clientWidth || 600);
    const px = (value) => LEFT + ((width - LEFT - RIGHT) * (value - x0)) / (x1 - x0 || 1);
    const py = (value) => height - BOTTOM - ((height - TOP - BOTTOM) * (value - y0)) / (y1 - y0 || 1);
    const made = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, tabindex: 0, role: "img", "aria-label": `${label}; arrow keys read the values, the numbers are below` });
    for (const value of ticks(y0, y1))
      made.append(svg("line", { class: "rule", x1: LEFT, x2: width - RIGHT, y1: py(value), y2: py(value) }),
        svg("text", { x: LEFT - 6, y: py(value) + 4, "text-anchor": "end" }, y.text(value)));
    const shown = x.ticks ?? ticks(x0, x1, Math.max(2, Math.floor(width / 110)));
    for (const value of shown.filter((one, i) => i % Math.ceil(shown.length / Math.max(2, width / 75)) === 0))
      if (value >= x0 - 1e-9 && value <= x1 + 1e-9) made.append(svg("text", { x: px(value), y: height - BOTTOM + 17, "text-anchor": "middle" }, x.text(value)));
    made.append(svg("line", { class: "axis", x1: LEFT, x2: width - RIGHT, y1: height - BOTTOM, y2: height - BOTTOM }),
      svg("text", { class: "unit", x: width - RIGHT, y: height - 5, "text-anchor": "end" }, x.label));
    const [start, end] = [Math.max(x0, y0), Math.min(x1, y1)];
    if (given.diagonal) made.append(svg("line", { class: "diagonal", x1: px(start), y1: py(start), x2: px(end), y2: py(end) }));
    series.forEach((one, i) => made.append(svg("g", { class: `series c${i % 6}` }, ...(kind === "lines" ? line : dots)(one, i, px, py))));
    const cursor = svg("line", { class: "cursor", y1: TOP, y2: height - BOTTOM, visibility: "hidden" });
    made.append(cursor);
    drawn = { width, px, cursor };
    const focused = room.firstChild === document.activeElement;
    fill(room, made, tip);
    made.addEventListener("pointermove", (e) => {
      const here = e.clientX - made.getBoundingClientRect().left;
      read(xs.reduce((best, value, i) => (Math.abs(px(value) - here) < Math.abs(px(xs[best]) - here) ? i : best), 0));
    });
    for (const name of ["pointerleave", "blur"]) made.addEventListener(name, () => read(-1));
    made.addEventListener("focus", () => made.matches(":focus-visible") && read(Math.max(0, at)));
    made.addEventListener("keydown", (e) => {
      const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: xs.length - 1 }[e.key];
      if (to === undefined) return e.key === "Escape" && read(-1);
      e.preventDefault();
      read(clamp(to, 0, xs.length - 1));
    });
    if (focused) made.focus();
  }

  function read(i) {
    at = xs.length ? i : -1;
    tip.hidden = at < 0;
    drawn.cursor.setAttribute("visibility", at < 0 ? "hidden" : "visible");
    if (at < 0) return;
    const here = drawn.px(xs[at]);
    for (const end of ["x1", "x2"]) drawn.cursor.setAttribute(end, here);
    const rows = series.flatMap((one, s) => one.points.filter((point) => point[0] === xs[at] && point[1] !== null)
      .map((point) => make("div", swatch(s), ` ${one.name}: `, make("b", y.text(point[1])), interval(point, y.text))));
    fill(tip, make("div.quiet", `${x.label}: ${x.text(xs[at])}`), rows);
    tip.style.left = `${clamp(here + 12, 0, drawn.width - 250)}px`;
  }

  const legend = make("div.legend", make("span.quiet", y.label), series.length > 1 && series.map((one, i) => make("span.text", swatch(i), " ", one.name)));
  fill(host, legend, room, numbers(given));
  draw();
  new ResizeObserver(() => host.isConnected && host.clientWidth && Math.abs(host.clientWidth - drawn.width) > 2 && draw()).observe(host);
}

const interval = (point, text) => (Number.isFinite(point[2]) ? ` (${text(point[2])} to ${text(point[3])})` : "");
const swatch = (i) => svg("svg", { class: `swatch c${i % 6}`, width: 18, height: 8, "aria-hidden": "true" }, svg("line", { x1: 0, x2: 18, y1: 4, y2: 4, stroke: "currentColor", "stroke-width": 3, "stroke-dasharray": DASHES[i % 6] }));

function line(one, i, px, py) {
  const parts = [[]];
  for (const point of one.points) point[1] === null ? parts.push([]) : parts.at(-1).push(point);
  return parts.filter((part) => part.length).flatMap((part) => {
    const place = (k) => (point) => `${px(point[0]).toFixed(1)},${py(point[k]).toFixed(1)}`;
    const band = part.every((point) => Number.isFinite(point[2])) && [...part.map(place(3)), ...part.map(place(2)).reverse()].join(" ");
    return [
      ...(band ? [svg("polygon", { class: "band", points: band })] : []),
      svg("polyline", { points: part.map(place(1)).join(" "), "stroke-dasharray": DASHES[i % 6] }),
      ...(part.length < 40 ? part.map((point) => svg("circle", { cx: px(point[0]), cy: py(point[1]), r: 3 })) : []),
    ];
  });
}

const dots = (one, i, px, py) => one.points.flatMap((point) => {
  const [cx, cy] = [px(point[0]), py(point[1])];
  const rod = Number.isFinite(point[2]) ? [svg("line", { x1: cx, x2: cx, y1: py(point[2]), y2: py(point[3]) })] : [];
  return [...rod, i % 2 ? svg("rect", { x: cx - 4, y: cy - 4, width: 8, height: 8 }) : svg("circle", { cx, cy, r: 4 })];
});

// The numbers of a chart, for whoever wants them exactly or cannot see it.
function numbers({ label, x, y, series }) {
  const rows = () => series.flatMap(({ name, points }) => points.map(([at, ...ys]) => [name, x.text(at), ...[0, 1, 2].map((k) => (Number.isFinite(ys[k]) ? y.text(ys[k]) : "–"))]));
  const open = () => shown.children.length > 1 || shown.append(table(`Numbers: ${label}`, ["Series", `#${x.label}`, `#${y.label}`, "#from", "#to"], rows()));
  const shown = make("details", { ontoggle: open }, make("summary", "Numbers"));
  return shown;
}
