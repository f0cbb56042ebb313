// The report of one cell, which pops up: values with intervals, chance, reliability, and the course over time.

import { FONT, clamp, dotsOf, fill, make, percent, whole } from "./dom.js";
import { errorsOf, pValue } from "./grid_cells.js";
import { cssOf } from "./grid_colors.js";
import { chanceText, changeText, nameText, timeText, valueText } from "./grid_numbers.js";

const [PLOT_WIDTH, PLOT_HEIGHT] = [230, 104];

// Everything that is known of a cell: the row's model on the column's slice, one entry for each metric shown.
export function factsOf(scene, { row, column }) {
  const { grid, state, rows, columns, cells, data } = scene;
  const [M, S, N] = [grid.models.length, grid.slices.length, columns.columns.length];
  const slice = columns.columns[column];
  const { model, metric: active } = rows[row];
  const metrics = state.metrics.map((metric) => {
    const r = rows.findIndex((one) => one.model === model && one.metric === metric);
    const [at, base] = [(metric * M + model) * S + slice, (metric * M + state.baseline) * S + slice];
    const errors = errorsOf(grid, data, metric, model, state.baseline);
    return {
      metric, value: data.value[at], base: data.value[base], low: data.low?.[at] ?? NaN, high: data.high?.[at] ?? NaN,
      difference: data.value[at] - data.value[base], error: errors ? errors[0][errors[1] + slice] : NaN,
      change: cells.change[r * N + column], chance: pValue(cells.z[r * N + column]), marked: cells.marked[r * N + column] === 1,
    };
  });
  const group = grid.groups.find(({ first, count }) => slice >= first && slice < first + count)?.name ?? "";
  return { slice, name: grid.slices[slice], group, model, active, metrics, impressions: data.impressions[slice], clicks: data.clicks[slice] };
}

// A cell in one sentence, for those who listen.
export function sentenceOf(scene, facts) {
  const own = facts.metrics.find(({ metric }) => metric === facts.active);
  const metric = scene.grid.metrics[facts.active];
  const change = facts.model === scene.state.baseline ? "baseline" : `${changeText(metric, own.change)}${own.marked ? ", significant" : ""}`;
  return `${nameText(facts.name)}, ${nameText(scene.grid.models[facts.model])}, ${metric.name} ${valueText(own.value)}, ${change}; ${whole(facts.impressions)} impressions`;
}

export class CellReport {
  constructor(close) {
    this.body = make("div");
    this.plots = [new CellPlot(), new CellPlot()];
    this.closer = make("button.plain.grid-close", { label: "Close the report", onclick: close }, "×");
    this.element = make("section.grid-report.card", { hidden: true, label: "Report of a cell" }, this.closer, this.body, make("div.grid-plots", this.plots.map(({ element }) => element)));
    this.element.addEventListener("keydown", (e) => e.key === "Escape" && close());
  }

  hide() {
    this.element.hidden = true;
    this.shown = "";
  }

  // Beside a rectangle of the page, where it hides neither the cell nor leaves the window.
  show(scene, cell, rect, kept, shades) {
    const key = `${cell.row}.${cell.column}.${kept}`;
    if (this.shown !== key || this.scene !== scene) {
      [this.shown, this.scene] = [key, scene];
      this.fill(scene, factsOf(scene, cell), shades);
      this.element.classList.toggle("kept", kept);
    }
    this.element.hidden = false;
    if (innerWidth < 700) return; // it stands at the bottom, see grid.css
    const { offsetWidth: width, offsetHeight: height } = this.element;
    const below = rect.bottom + 10 + height <= innerHeight || rect.top < height + 10;
    const left = clamp((rect.left + rect.right - width) / 2, 8, innerWidth - width - 8);
    const top = below ? Math.min(rect.bottom + 10, Math.max(8, innerHeight - height - 8)) : rect.top - 10 - height;
    Object.assign(this.element.style, { left: `${left}px`, top: `${top}px` });
  }

  fill(scene, facts, shades) {
    const { grid, state, data } = scene;
    const total = data.impressions[scene.columns.pinned ? scene.columns.columns[0] : facts.slice];
    const rate = facts.clicks / facts.impressions;
    const against = facts.model === state.baseline ? "the baseline" : `against ${nameText(grid.models[state.baseline], 40)}`;
    fill(this.body,
      make("p.grid-report-name.text", nameText(facts.name, 160)),
      make("p.quiet", `${nameText(facts.group, 60)} · ${whole(facts.impressions)} impressions (${percent(facts.impressions / total)}) · ${whole(facts.clicks)} clicks · click rate ${percent(rate, 2)}`),
      make("p.text", make("strong", nameText(grid.models[facts.model], 60)), ` ${against}`),
      metricsTable(scene, facts),
    );
    drawReliability(this.plots[0], scene, facts, shades);
    drawTrend(this.plots[1], scene, facts, shades);
  }
}

function metricsTable({ grid, state, data }, facts) {
  const z = deviateOf(1 - grid.level);
  const level = `${Math.round(100 * grid.level)} %`;
  const isBase = facts.model === state.baseline;
  const head = ["Metric", ...(isBase ? [] : ["Change", "p"]), "Value", `${level} interval`, ...(isBase ? [] : ["Baseline", `Difference, ${level}`])];
  const rows = facts.metrics.map((one) => {
    const metric = grid.metrics[one.metric];
    const interval = data.whole && Number.isFinite(one.low) ? `${valueText(one.value - one.low)} … ${valueText(one.value + one.high)}` : "–";
    const apart = Number.isFinite(one.error) ? ` ± ${valueText(z * one.error, 2)}` : "";
    const number = (text, kind = "") => make("td", { class: `number ${kind}` }, text);
    const cells = [number(valueText(one.value)), number(interval)];
    if (!isBase) {
      const tone = one.marked ? (one.change > 0 ? "bad" : "good") : "";
      cells.unshift(number(make("strong", changeText(metric, one.change)), tone), number([chanceText(one.chance), one.marked ? " significant" : ""]));
      cells.push(number(valueText(one.base)), number(`${valueText(one.difference, 2)}${apart}`));
    }
    const name = metric.unit ? `${metric.name}, ${metric.unit}` : metric.name;
    return make("tr", { class: one.metric === facts.active ? "active" : "" }, make("th", { scope: "row" }, nameText(name, 30)), cells);
  });
  return make("div.scroll", make("table",
    make("thead", make("tr", head.map((text, i) => make("th", { scope: "col", class: i ? "number" : "" }, text)))),
    make("tbody", rows)));
}

// Where |z| has a chance of p.
function deviateOf(p) {
  let [low, high] = [0, 40];
  for (let i = 0; i < 60; i++) pValue((low + high) / 2) > p ? (low = (low + high) / 2) : (high = (low + high) / 2);
  return low;
}

// A small plot with its caption, drawn anew for each cell; or a sentence where there is nothing to draw.
class CellPlot {
  constructor() {
    this.dots = dotsOf();
    this.canvas = make("canvas", { width: PLOT_WIDTH * this.dots, height: PLOT_HEIGHT * this.dots, role: "img" });
    this.caption = make("figcaption.quiet");
    this.element = make("figure", this.canvas, this.caption);
  }

  draw(caption, shades, drawIn) {
    this.caption.textContent = caption;
    this.canvas.hidden = !drawIn;
    if (!drawIn) return;
    this.canvas.setAttribute("aria-label", caption);
    const pen = this.canvas.getContext("2d");
    pen.setTransform(this.dots, 0, 0, this.dots, 0, 0);
    pen.clearRect(0, 0, PLOT_WIDTH, PLOT_HEIGHT);
    pen.font = `10px ${FONT}`;
    pen.fillStyle = cssOf(shades.quiet);
    pen.textAlign = "right";
    drawIn(pen, { left: 34, right: PLOT_WIDTH - 6, top: 6, bottom: PLOT_HEIGHT - 16 });
  }
}

const lineThrough = (pen, points, color, width, dotted) => {
  pen.strokeStyle = pen.fillStyle = color;
  pen.lineWidth = width;
  pen.beginPath();
  points.forEach(([x, y], i) => (i ? pen.lineTo(x, y) : pen.moveTo(x, y)));
  pen.stroke();
  if (dotted) for (const [x, y] of points) pen.fillRect(x - 2, y - 2, 4, 4);
};

function drawReliability(plot, { grid, state }, facts, shades) {
  const at = grid.reliability_slices?.indexOf(facts.slice) ?? -1;
  if (at < 0) return plot.draw("Reliability is kept for the largest slices only.");
  const pointsOf = (model) => {
    const start = (at * grid.models.length + model) * 30;
    return Array.from({ length: 10 }, (_, b) => [grid.reliability[start + b], grid.reliability[start + 10 + b]]).filter(([x, y]) => x === x && y === y);
  };
  const [own, base] = [pointsOf(facts.model), pointsOf(state.baseline)];
  const most = Math.max(1e-6, ...own.flat(), ...base.flat());
  return plot.draw("Click rate by predicted click rate", shades, (pen, box) => {
    const place = ([x, y]) => [box.left + (x / most) * (box.right - box.left), box.bottom - (y / most) * (box.bottom - box.top)];
    lineThrough(pen, [place([0, 0]), place([most, most])], cssOf(shades.hatch), 1);
    pen.fillStyle = cssOf(shades.quiet);
    pen.fillText(percent(most, 0), box.left - 4, box.top + 8);
    pen.fillText("0", box.left - 4, box.bottom);
    pen.fillText(percent(most, 0), box.right, box.bottom + 12);
    if (facts.model !== state.baseline) lineThrough(pen, base.map(place), cssOf(shades.quiet), 1.5, false);
    lineThrough(pen, own.map(place), cssOf(shades.table[60]), 2, true);
  });
}

// The change of the cell's metric by period, or of the baseline its value.
function drawTrend(plot, { grid, state }, facts, shades) {
  const [K, M, S, P] = [grid.metrics.length, grid.models.length, grid.slices.length, grid.periods.length];
  if (P < 2) return plot.draw("This grid has no periods.");
  const [metric, isBase] = [grid.metrics[facts.active], facts.model === state.baseline];
  const valueAt = (p, model) => grid.period_value[((p * K + facts.active) * M + model) * S + facts.slice];
  const points = [];
  for (let p = 0; p < P; p++) {
    const [own, base] = [valueAt(p, facts.model), valueAt(p, state.baseline)];
    const apart = metric.best === "zero" ? Math.abs(own) - Math.abs(base) : (own - base) / Math.abs(base);
    if (Number.isFinite(isBase ? own : apart)) points.push([p, isBase ? own : apart]);
  }
  const sizes = points.map(([, y]) => y);
  const [low, high] = isBase ? [Math.min(...sizes), Math.max(...sizes)] : [Math.min(0, ...sizes), Math.max(0, ...sizes)];
  const text = (y) => (isBase ? valueText(y, 3) : changeText({ ...metric, best: metric.best === "zero" ? "zero" : "low" }, y));
  const caption = `${isBase ? "" : "Change of "}${nameText(metric.name, 20)} by period`;
  return plot.draw(caption, shades, (pen, box) => {
    const x = (p) => box.left + 8 + (p / (P - 1)) * (box.right - box.left - 8);
    const y = (value) => box.bottom - ((value - low) / (high - low || 1)) * (box.bottom - box.top);
    pen.fillText(text(high), box.left + 4, box.top + 8);
    if (low < high) pen.fillText(text(low), box.left + 4, box.bottom);
    pen.textAlign = "left";
    pen.fillText(timeText(grid.periods[0].start, false), box.left + 8, box.bottom + 12);
    pen.textAlign = "right";
    pen.fillText(timeText(grid.periods[P - 1].start, false), box.right, box.bottom + 12);
    if (!isBase) lineThrough(pen, [[box.left + 8, y(0)], [box.right, y(0)]], cssOf(shades.hatch), 1);
    lineThrough(pen, points.map(([p, value]) => [x(p), y(value)]), cssOf(shades.table[60]), 1.5, P <= 60);
  });
}
