// Time: a bar to choose the period from, and the same grid once for each day or hour of the day.

import { clamp, dotsOf, fill, make, whole } from "./dom.js";
import { arrangeCells, makeChanges, sumPeriods, visible } from "./grid_cells.js";
import { cssOf } from "./grid_colors.js";
import { timeText } from "./grid_numbers.js";
import { CellPainter } from "./grid_paint.js";
import { hasHours } from "./grid_state.js";

const BAR_HEIGHT = 44;

export function makeTimeBar(grid, change) {
  const P = grid.periods.length;
  if (P < 2) return { element: make("div", { hidden: true }), sync: () => {} };
  const canvas = make("canvas", { "aria-hidden": "true" });
  const said = make("output");
  const handle = (text, key, low, high) => make("input", { type: "range", min: low, max: high, label: text, oninput: (e) => moved(key, Number(e.target.value)) });
  const [from, to] = [handle("From period", "start", 0, P - 1), handle("To period", "end", 1, P)];
  const all = make("button", { onclick: () => change({ start: 0, end: P, hour: -1 }) }, "Whole time");
  const element = make("div.grid-time", make("div.grid-time-line", make("span.quiet", "Period"), said, all), make("div.grid-time-bar", canvas, from, to));
  let [state, drawn] = [null, ""];
  function moved(key, value) {
    const next = { start: state.start, end: state.end, [key]: value };
    if (next.start >= next.end) key === "start" ? (next.start = next.end - 1) : (next.end = next.start + 1);
    change(next);
  }
  const total = grid.groups[0].first;
  const S = grid.slices.length;
  const withHour = hasHours(grid);
  return {
    element,
    sync(now, shades) {
      state = now;
      [from.value, to.value] = [now.start, now.end];
      const ends = [timeText(grid.periods[now.start].start, withHour), timeText(grid.periods[now.end - 1].end, withHour)];
      for (const [input, text] of [[from, ends[0]], [to, ends[1]]]) input.setAttribute("aria-valuetext", text);
      said.textContent = `${ends[0]} to ${ends[1]} UTC${now.hour < 0 ? "" : `, ${now.hour}:00 to ${now.hour + 1}:00 of each day`}`;
      all.hidden = now.start === 0 && now.end === P && now.hour < 0;
      const dots = dotsOf();
      const width = element.clientWidth || 600;
      const key = [width, shades.theme, now.start, now.end, now.hour].join();
      if (drawn === key) return;
      drawn = key;
      [canvas.width, canvas.height] = [width * dots, BAR_HEIGHT * dots];
      const pen = canvas.getContext("2d");
      pen.scale(dots, dots);
      const sizes = Array.from({ length: P }, (_, p) => grid.period_impressions[p * S + total]);
      const most = Math.max(1, ...sizes);
      const inner = width - 16; // half a handle at each end
      sizes.forEach((size, p) => {
        const chosen = p >= now.start && p < now.end && (now.hour < 0 || new Date(grid.periods[p].start).getUTCHours() === now.hour);
        pen.fillStyle = cssOf(chosen ? shades.table[90] : shades.hatch);
        const [a, b] = [8 + (p / P) * inner, 8 + ((p + 1) / P) * inner];
        pen.fillRect(a, BAR_HEIGHT - (size / most) * BAR_HEIGHT, Math.max(0.5, b - a - (inner / P > 4 ? 1 : 0)), (size / most) * BAR_HEIGHT);
      });
    },
  };
}

// Which periods are in which small grid: [{text, periods, chosen: what a click on it chooses}].
function panelsOf(grid, state) {
  const panels = new Map();
  for (let p = state.start; p < state.end; p++) {
    const start = new Date(grid.periods[p].start);
    if (state.hour >= 0 && start.getUTCHours() !== state.hour) continue;
    const key = state.by === "day" ? grid.periods[p].start.slice(0, 10) : `${String(start.getUTCHours()).padStart(2, "0")}:00`;
    if (!panels.has(key)) panels.set(key, { text: key, periods: [], chosen: state.by === "day" ? { start: p, end: p + 1 } : { hour: start.getUTCHours() } });
    const panel = panels.get(key);
    panel.periods.push(p);
    if (state.by === "day") panel.chosen.end = p + 1;
  }
  return [...panels.values()].sort((a, b) => (a.text < b.text ? -1 : 1));
}

// The same rows, columns and colours for each; a click chooses its period.
export function makePanels(grid, change) {
  const element = make("div.grid-panels");
  const painter = new CellPainter();
  return {
    element,
    sync(scene, shades) {
      const { state } = scene;
      const rows = scene.rows.filter(({ model }) => model !== state.baseline);
      fill(element, panelsOf(grid, state).map((panel) => {
        const data = sumPeriods(grid, panel.periods);
        const cells = arrangeCells(grid, state, rows, makeChanges(grid, data, rows, state.baseline), scene.columns);
        const canvas = make("canvas", { "aria-hidden": "true" });
        paintPanel(painter, canvas, { ...scene, rows }, cells, shades);
        const seen = data.impressions[scene.columns.columns[0]] ?? 0;
        return make("button.grid-panel", { onclick: () => change({ by: "one", ...panel.chosen }) }, make("strong", panel.text), canvas, make("span.quiet", `${whole(seen)} impressions, ${whole(cells.count)} significant`));
      }));
    },
  };
}

function paintPanel(painter, canvas, { grid, state, rows, columns, bounds }, cells, shades) {
  const dots = dotsOf();
  const each = clamp(Math.floor(180 / rows.length), 3, 10) * dots;
  const [width, N] = [Math.round(280 * dots), columns.columns.length];
  const placed = [];
  let top = 0;
  rows.forEach(({ model, metric }, r) => {
    if (r && rows[r - 1].model !== model) top += 2 * dots;
    placed.push({ model, metric, isBaseline: model === state.baseline, top: Math.round(top), height: Math.round(each), strip: 0 });
    top += each;
  });
  [canvas.width, canvas.height] = [width, Math.round(top)];
  const scale = width / (state.to - state.from);
  const [first, last] = visible(columns, state);
  const area = { x: 0, width, first, last, left: columns.left, right: columns.right, scale, offset: -state.from * scale, lines: 0 };
  const image = new ImageData(width, canvas.height);
  painter.paint(image, { rows: placed, areas: [area] }, {
    shades, bounds, cells, N, largest: state.pixel === "largest", font: Infinity, metrics: grid.metrics,
  });
  canvas.getContext("2d").putImageData(image, 0, 0);
}
