// The canvas: where rows and columns stand, and how mouse, fingers and keys move over them.

import { columnAt, visible } from "./grid_cells.js";
import { cssOf, shadesOf, themeOf } from "./grid_colors.js";
import { FONT, clamp, dotsOf, fill, make } from "./dom.js";
import { nameText } from "./grid_numbers.js";
import { CellPainter } from "./grid_paint.js";

const NARROW = 640; // px of the view, below which model names stand above their rows
const NAMES = `12px ${FONT}`;
const HELP =
  "Cells of the grid. Arrow keys move from cell to cell, Page Up and Page Down by ten columns, Home and End to the ends; " +
  "plus and minus zoom, 0 shows all; Shift with arrow keys moves the view; Enter keeps the report open, Escape closes it.";

// What is told to the page: cell(cell, kept) for what is pointed at, zoom(from, to).
export class GridView {
  constructor(tell) {
    this.tell = tell;
    this.painter = new CellPainter();
    this.canvas = make("canvas", { "aria-hidden": "true" });
    this.labels = make("div.grid-labels");
    this.spoken = make("p.hidden-text", { role: "status" });
    this.boxes = [make("div.grid-box"), make("div.grid-box.grid-cursor")];
    this.field = make("div.grid-field", { tabindex: "0", role: "application", label: HELP }, this.canvas, this.boxes);
    this.element = make("div.grid-view", this.labels, this.field, this.spoken);
    this.context = this.canvas.getContext("2d", { alpha: false, willReadFrequently: true });
    [this.cursor, this.hover, this.fingers, this.waiting] = [null, null, new Map(), false];
    this.listen();
    new ResizeObserver(() => this.resize()).observe(this.element);
  }

  // scene: {grid, state, rows, columns (of makeColumns), cells (of arrangeCells), bounds, data}
  show(scene) {
    this.scene = scene;
    if (this.cursor) this.cursor = this.within(this.cursor);
    this.hover = null;
    this.resize();
  }

  arrange() {
    const { rows, state, columns } = this.scene;
    const width = this.element.clientWidth;
    const narrow = width < NARROW;
    const gutter = narrow ? 72 : 192;
    const gap = narrow ? 22 : 8;
    const several = columns.sections.length > 1;
    const header = this.headerHeight(width - gutter) + (several ? 22 : 0);
    const room = Math.max(320, 0.6 * innerHeight) - header - state.models.length * gap;
    const height = clamp(Math.floor(room / rows.length), 16, 32);
    const placed = [];
    let top = header;
    rows.forEach(({ model, metric }, r) => {
      if (r === 0 || rows[r - 1].model !== model) top += r || narrow ? gap : 0;
      placed.push({ model, metric, top, height });
      top += height;
    });
    const pinned = columns.pinned ? (narrow ? 52 : 70) : 0;
    const x = pinned ? pinned + 8 : 0;
    return { narrow, gutter, header, several, rows: placed, pinned, x, width: Math.max(40, width - gutter - x), height: top + 12 };
  }

  // As tall as the upright names of the columns that will have one, within bounds.
  headerHeight(width) {
    const { grid, columns } = this.scene;
    const { left, right, pinned } = columns;
    this.context.font = NAMES;
    let tall = 12;
    for (let j = pinned, n = 0; j < left.length && n < 40; j++) {
      const own = (right[j] - left[j]) * width;
      if (own < 13 || own >= 64) continue;
      n++;
      tall = Math.max(tall, this.context.measureText(nameText(grid.slices[columns.columns[j]], 40)).width);
    }
    return Math.min(140, Math.ceil(tall) + 14) + (left.length > 400 ? Math.max(0, 76 - Math.ceil(tall) - 14) : 0);
  }

  resize() {
    if (!this.scene || !this.element.clientWidth) return;
    const at = (this.at = this.arrange());
    this.dots = dotsOf();
    const [w, h] = [Math.round((at.x + at.width) * this.dots), Math.round(at.height * this.dots)];
    if (this.canvas.width !== w || this.canvas.height !== h) {
      [this.canvas.width, this.canvas.height] = [w, h];
      Object.assign(this.canvas.style, { width: `${at.x + at.width}px`, height: `${at.height}px` });
      this.image = new ImageData(w, h);
    }
    this.writeLabels();
    this.draw();
  }

  writeLabels() {
    const { grid, state } = this.scene;
    const { rows, narrow, gutter, height } = this.at;
    const key = [narrow, height, state.models, state.metrics, state.baseline].join("|");
    if (this.labelled === key) return;
    this.labelled = key;
    const found = [];
    const put = (element, top, tall) => {
      Object.assign(element.style, { top: `${top}px`, height: `${tall}px` });
      found.push(element);
    };
    rows.forEach(({ model, metric, top, height: tall }, r) => {
      if (r === 0 || rows[r - 1].model !== model) {
        const own = rows.filter((row) => row.model === model).length * tall;
        const name = make("div.grid-model.text", { title: grid.models[model] }, make("span", nameText(grid.models[model], 60)));
        if (model === state.baseline) name.append(make("span.grid-base", "baseline"));
        put(name, narrow ? top - 22 : top, narrow ? 22 : own);
      }
      put(make("div.grid-metric", { title: grid.metrics[metric].name }, nameText(grid.metrics[metric].name, 30)), top, tall);
    });
    this.labels.classList.toggle("narrow", narrow);
    Object.assign(this.labels.style, { width: `${gutter}px`, height: `${height}px` });
    fill(this.labels, found);
  }

  draw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      if (this.scene && this.at) this.drawNow();
    });
  }

  drawNow() {
    const started = performance.now();
    const { context: pen, dots } = this;
    const { grid, state, columns, cells, bounds, data } = this.scene;
    const shades = this.shades?.theme === themeOf() ? this.shades : (this.shades = shadesOf(themeOf()));
    const frame = this.frameOf(dots);
    const [M, S, N] = [grid.models.length, grid.slices.length, columns.columns.length];
    this.painter.paint(this.image, frame, {
      shades, bounds, cells, N, largest: state.pixel === "largest",
      font: Math.round(11.5 * dots), metrics: grid.metrics, values: state.number === "value", written: this.written,
      value: (metric, model, j) => data.value[(metric * M + model) * S + columns.columns[j]],
    });
    pen.putImageData(this.image, 0, 0);
    pen.save();
    pen.scale(dots, dots);
    this.writeHeader(shades, frame.areas.at(-1).wide);
    this.drawBar(shades);
    pen.restore();
    this.frameCells();
    this.took = performance.now() - started;
  }

  frameOf(dots) {
    const { rows, pinned, x, width } = this.at;
    const { state, columns } = this.scene;
    const scale = (width * dots) / (state.to - state.from);
    const [first, last] = visible(columns, state);
    const lines = Math.max(1, Math.round(dots));
    const areas = [];
    if (pinned) areas.push({ x: 0, width: Math.round(pinned * dots), first: 0, last: 1, left: [0], right: [1], scale: pinned * dots, offset: 0, lines: 0 });
    const start = Math.round(x * dots);
    areas.push({ x: start, width: this.canvas.width - start, first, last, left: columns.left, right: columns.right, scale, offset: start - state.from * scale, lines });
    const strip = Math.round(4 * dots);
    return {
      areas,
      rows: rows.map(({ model, metric, top, height }) => ({
        model, metric, isBaseline: model === state.baseline, strip, top: Math.round(top * dots), height: Math.round(height * dots),
      })),
    };
  }

  // Where a column is on the canvas, as [left, right].
  columnPlace(j) {
    const { state, columns } = this.scene;
    if (j < columns.pinned) return [0, this.at.pinned];
    const place = (share) => this.at.x + ((share - state.from) / (state.to - state.from)) * this.at.width;
    return [place(columns.left[j]), place(columns.right[j])];
  }

  writeHeader(shades, wide) {
    const { context: pen, at } = this;
    const { grid, columns } = this.scene;
    const bottom = at.header - 6;
    pen.fillStyle = cssOf(shades.ink);
    pen.font = NAMES;
    pen.textBaseline = "alphabetic";
    pen.textAlign = "center";
    if (at.pinned) pen.fillText("all", at.pinned / 2, bottom);
    for (const j of wide) {
      const [a, b] = this.columnPlace(j);
      if (b - a < 13) continue;
      const name = grid.slices[columns.columns[j]];
      const [left, right] = [Math.max(a, at.x), Math.min(b, at.x + at.width)];
      const middle = (left + right) / 2;
      if (b - a >= 64) pen.fillText(fitting(pen, nameText(name, 80), right - left - 6), middle, bottom);
      else if (middle > at.x + 5 && middle < at.x + at.width - 5) this.writeUpright(name, middle, bottom);
    }
    if (at.several) this.writeSections(shades);
  }

  writeUpright(name, x, bottom) {
    const { context: pen, at } = this;
    pen.save();
    pen.translate(x + 4, bottom);
    pen.rotate(-Math.PI / 2);
    pen.textAlign = "left";
    pen.fillText(fitting(pen, nameText(name, 40), at.header - 10 - (at.several ? 22 : 0)), 0, 0);
    pen.restore();
  }

  writeSections(shades) {
    const { context: pen, at } = this;
    const { sections } = this.scene.columns;
    pen.font = `600 ${NAMES}`;
    for (const { name, first, count } of sections) {
      if (!count) continue;
      const a = Math.max(at.x, this.columnPlace(first)[0]);
      const b = Math.min(at.x + at.width, this.columnPlace(first + count - 1)[1]);
      if (b - a < 3) continue;
      pen.fillStyle = cssOf(shades.hatch);
      pen.fillRect(a, 18, b - a, 2);
      pen.fillStyle = cssOf(shades.ink);
      pen.textAlign = "left";
      pen.fillText(fitting(pen, nameText(name, 60), b - a), a, 13);
    }
  }

  // How much of the width is seen, where it is not all.
  drawBar(shades) {
    const { context: pen, at } = this;
    const { from, to } = this.scene.state;
    if (from <= 0 && to >= 1) return;
    pen.fillStyle = cssOf(shades.hatch);
    pen.fillRect(at.x, at.height - 7, at.width, 3);
    pen.fillStyle = cssOf(shades.quiet);
    pen.fillRect(at.x + from * at.width, at.height - 8, Math.max(4, (to - from) * at.width), 5);
  }

  // Frames around what is pointed at and around the cursor; they cost no painting of cells.
  frameCells() {
    [this.hover, document.activeElement === this.field ? this.cursor : null].forEach((cell, i) => {
      const box = this.boxes[i];
      box.hidden = !cell;
      if (!cell) return;
      let { left, right } = this.spanOf(cell.column);
      if (right - left < 5) [left, right] = [(left + right) / 2 - 2.5, (left + right) / 2 + 2.5]; // too narrow otherwise
      const { top, height } = this.at.rows[cell.row];
      box.style.transform = `translate(${left}px, ${top}px)`;
      box.style.width = `${right - left}px`;
      box.style.height = `${height - 3}px`;
    });
  }

  spanOf(column) {
    const { pinned, x, width } = this.at;
    const [a, b] = this.columnPlace(column);
    const [low, high] = column < this.scene.columns.pinned ? [0, pinned] : [x, x + width];
    return { left: clamp(a, low, high), right: clamp(b, low, high) };
  }

  cellAt(px, py) {
    const { at, scene } = this;
    const row = at.rows.findIndex(({ top, height }) => py >= top && py < top + height);
    if (row < 0 || px < 0 || px >= at.x + at.width) return null;
    if (px < at.x) return px < at.pinned ? { row, column: 0 } : null;
    const { from, to } = scene.state;
    const column = columnAt(scene.columns, from + ((px - at.x) / at.width) * (to - from));
    return column < 0 ? null : { row, column };
  }

  rectOf({ row, column }) {
    const box = this.canvas.getBoundingClientRect();
    const { left, right } = this.spanOf(column);
    const { top, height } = this.at.rows[row];
    return { left: box.left + left, right: box.left + right, top: box.top + top, bottom: box.top + top + height };
  }

  within({ row, column }) {
    const { rows, columns } = this.scene;
    return { row: clamp(row, 0, rows.length - 1), column: clamp(column, 0, columns.columns.length - 1) };
  }

  // Zoom by a factor about a place of the view, from 0 (left) to 1.
  zoom(factor, about = 0.5) {
    const { from, to } = this.scene.state;
    const middle = from + about * (to - from);
    const span = clamp((to - from) / factor, this.closest(), 1);
    this.look(middle - about * span, middle - about * span + span);
  }

  // Where one narrow column fills a good part of the view.
  closest() {
    const { left, right, pinned } = this.scene.columns;
    let least = 1;
    for (let j = pinned; j < left.length; j++) if (right[j] > left[j]) least = Math.min(least, right[j] - left[j]);
    return clamp(3 * least, 1e-9, 1);
  }

  pan(share) {
    const { from, to } = this.scene.state;
    this.look(from + share * (to - from), to + share * (to - from));
  }

  look(from, to) {
    const span = Math.min(1, to - from);
    const start = clamp(from, 0, 1 - span);
    this.tell.zoom(start, start + span);
  }

  listen() {
    const { field, canvas } = this;
    field.addEventListener("keydown", (e) => this.key(e));
    field.addEventListener("focus", () => this.scene && this.pointAt(this.cursor ?? { row: this.firstRow(), column: 0 }));
    field.addEventListener("blur", () => {
      this.frameCells();
      this.tell.cell(null);
    });
    const acts = { wheel: "wheel", pointerdown: "press", pointermove: "move", pointerup: "release", pointercancel: "release" };
    for (const [name, act] of Object.entries(acts)) canvas.addEventListener(name, (e) => this[act](e), { passive: false });
    canvas.addEventListener("pointerleave", () => this.point(null));
  }

  firstRow() {
    const { rows, state } = this.scene;
    return Math.max(0, rows.findIndex(({ model }) => model !== state.baseline));
  }

  point(cell) {
    if (cell?.row === this.hover?.row && cell?.column === this.hover?.column) return;
    this.hover = cell;
    this.tell.cell(cell); // first: it reads where things are, and a frame that moved would make it wait
    this.frameCells();
  }

  pointAt(cell) {
    this.cursor = this.within(cell);
    this.hover = null;
    const { state, columns } = this.scene;
    const j = this.cursor.column;
    if (j >= columns.pinned && (columns.left[j] < state.from || columns.right[j] > state.to)) {
      const span = state.to - state.from;
      const middle = (columns.left[j] + columns.right[j]) / 2;
      this.look(middle - span / 2, middle + span / 2);
    }
    this.tell.cell(this.cursor, false, true);
    this.frameCells();
  }

  key(e) {
    if (!this.scene || e.altKey || e.ctrlKey || e.metaKey) return;
    const { row, column } = this.cursor ?? { row: this.firstRow(), column: 0 };
    const last = this.scene.columns.columns.length - 1;
    const moves = {
      ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0],
      PageUp: [0, -10], PageDown: [0, 10], Home: [0, -last], End: [0, last],
    };
    if (e.shiftKey && (e.key === "ArrowLeft" || e.key === "ArrowRight")) this.pan(e.key === "ArrowLeft" ? -0.25 : 0.25);
    else if (moves[e.key]) this.pointAt({ row: row + moves[e.key][0], column: column + moves[e.key][1] });
    else if (e.key === "+" || e.key === "=") this.zoom(1.5, this.aboutCursor());
    else if (e.key === "-") this.zoom(1 / 1.5, this.aboutCursor());
    else if (e.key === "0") this.look(0, 1);
    else if (e.key === "Enter") this.tell.cell(this.cursor, true, true);
    else if (e.key === "Escape") this.tell.cell(null, false, true);
    else return;
    e.preventDefault();
  }

  aboutCursor() {
    const { columns, state } = this.scene;
    const j = this.cursor?.column ?? -1;
    if (j < columns.pinned) return 0.5;
    return clamp(((columns.left[j] + columns.right[j]) / 2 - state.from) / (state.to - state.from), 0, 1);
  }

  wheel(e) {
    const { from, to } = this.scene.state;
    const about = clamp((e.offsetX - this.at.x) / this.at.width, 0, 1);
    const unit = e.deltaMode === 1 ? 16 : e.deltaMode === 2 ? 400 : 1;
    if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
      this.pan(((e.deltaX || e.deltaY) * unit) / this.at.width);
    } else if (e.deltaY > 0 && from <= 0 && to >= 1) return; // nothing to zoom out of: the page may scroll
    else this.zoom(Math.exp(-e.deltaY * unit * 0.002), about);
    e.preventDefault();
  }

  press(e) {
    this.canvas.setPointerCapture(e.pointerId);
    this.fingers.set(e.pointerId, { x: e.offsetX, y: e.offsetY, moved: 0 });
  }

  move(e) {
    const finger = this.fingers.get(e.pointerId);
    if (!finger) return this.point(this.cellAt(e.offsetX, e.offsetY));
    const [before, x] = [finger.x, e.offsetX];
    const others = [...this.fingers].filter(([id]) => id !== e.pointerId).map(([, other]) => other);
    finger.moved += Math.abs(x - before);
    finger.x = x;
    if (finger.moved < 4) return;
    if (others.length) {
      const [apart, now] = [Math.abs(before - others[0].x), Math.abs(x - others[0].x)];
      if (apart > 8 && now > 8) this.zoom(now / apart, ((x + others[0].x) / 2 - this.at.x) / this.at.width);
    } else this.pan((before - x) / this.at.width);
    this.point(null);
  }

  release(e) {
    const finger = this.fingers.get(e.pointerId);
    this.fingers.delete(e.pointerId);
    if (e.type !== "pointerup" || !finger || finger.moved >= 4) return;
    const cell = this.cellAt(e.offsetX, e.offsetY);
    if (!cell) return;
    this.field.focus({ preventScroll: true });
    this.cursor = cell;
    this.frameCells();
    this.tell.cell(cell, true);
  }

  say(text) {
    this.spoken.textContent = text;
  }
}

// As much of a text as there is room for; nothing if that is less than two letters.
export function fitting(pen, text, room) {
  if (pen.measureText(text).width <= room) return text;
  const letters = Array.from(text);
  let [low, high] = [0, letters.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (pen.measureText(`${letters.slice(0, middle).join("")}…`).width <= room) low = middle;
    else high = middle - 1;
  }
  return low < 2 ? "" : `${letters.slice(0, low).join("").trimEnd()}…`;
}
