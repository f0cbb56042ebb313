// GridViz (McMahan et al., KDD 2013, §5.2): models by slices at a glance. `showGrid` puts it into an element.

import { address, fill, make, whole } from "./dom.js";
import { arrangeCells, boundsOf, chosenPeriods, expressionOf, makeChanges, makeColumns, rowsOf, sumPeriods } from "./grid_cells.js";
import { shadesOf, themeOf } from "./grid_colors.js";
import { makeControls, makeLegend } from "./grid_controls.js";
import { nameText } from "./grid_numbers.js";
import { savePicture } from "./grid_picture.js";
import { CellReport, factsOf, sentenceOf } from "./grid_report.js";
import { readState, writeState } from "./grid_state.js";
import { makeTable } from "./grid_table.js";
import { makePanels, makeTimeBar } from "./grid_time.js";
import { GridView } from "./grid_view.js";

// What changes where columns stand, and what changes only how cells look.
const MOVES = new Set(["groups", "find", "floor", "width", "sort", "row"]);
const LOOKS = new Set(["from", "to", "range", "quantile", "pixel", "number"]);

// options: {query: what the address says, as URLSearchParams; address(query): writes it}; otherwise all after the "#".
export function showGrid(element, grid, options = {}) {
  const page = new GridPage(grid, options);
  fill(element, page.element);
  page.refresh();
  element.gridPage = page;
  return page;
}

class GridPage {
  constructor(grid, options) {
    this.grid = grid;
    this.options = options;
    this.kept = {};
    this.state = readState(options.query ?? new URLSearchParams(location.hash.slice(1)), grid);
    const change = (patch) => this.change(patch);
    this.controls = makeControls(grid, change);
    this.legend = makeLegend(grid, change);
    this.time = makeTimeBar(grid, change);
    this.panels = makePanels(grid, change);
    this.table = makeTable();
    this.report = new CellReport(() => this.closeReport());
    this.view = new GridView({ cell: (cell, kept, spoken) => this.point(cell, kept, spoken), zoom: (from, to) => this.change({ from, to }) });
    this.empty = make("p.state", { role: "status" });
    this.said = make("p.quiet.grid-said", { role: "status" });
    this.element = this.assemble();
    this.listen();
  }

  assemble() {
    const { grid, view } = this;
    const button = (text, name, act) => make("button", { title: name, label: name, onclick: act }, text);
    const tools = make("div.grid-tools",
      button("+", "Zoom in", () => view.zoom(2)), button("−", "Zoom out", () => view.zoom(0.5)), button("All", "Show all columns", () => view.look(0, 1)),
      button("PNG", "Save as PNG", () => savePicture(this.scene, view, this.shades())));
    const notes = [...(grid.notes ?? [])];
    if (grid.left_out) notes.push(`${whole(grid.left_out)} rows are left out: they have no label, no weight, or no prediction of one of the models.`);
    if (grid.periods.length > 1) notes.push("Over some of the periods, a value is the mean of theirs, weighted by impressions (AucLoss: by pairs of a click and a non-click), and periods are taken as independent.");
    return make("div.grid-page",
      make("div.grid-head", make("div", make("h1.text", nameText(grid.title, 200)), this.said), tools),
      this.controls.element, this.legend.element, this.empty, view.element, this.panels.element, this.time.element, this.table.element,
      notes.map((note) => make("p.quiet", note)), this.report.element);
  }

  shades() {
    if (this.colors?.theme !== themeOf()) this.colors = shadesOf(themeOf());
    return this.colors;
  }

  // Follow the theme and the address for as long as this page is in the document.
  listen() {
    const ended = new AbortController();
    const here = (act) => (e) => (this.element.isConnected ? act(e) : ended.abort());
    const on = (target, name, act) => target.addEventListener(name, here(act), { signal: ended.signal, passive: true });
    on(matchMedia("(prefers-color-scheme: dark)"), "change", () => this.recolour());
    on(window, "scroll", () => this.keptCell || this.report.hide());
    on(document, "pointerdown", (e) => this.controls.close(e.target));
    if (!this.options.query) on(window, "hashchange", () => this.readAddress());
    const watching = new MutationObserver(here(() => this.recolour()));
    watching.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    ended.signal.addEventListener("abort", () => watching.disconnect());
  }

  readAddress() {
    this.state = readState(new URLSearchParams(location.hash.slice(1)), this.grid);
    this.refresh();
  }

  change(patch) {
    const keys = Object.keys(patch);
    Object.assign(this.state, patch);
    if (keys.some((key) => MOVES.has(key))) Object.assign(this.state, { from: 0, to: 1 });
    clearTimeout(this.later);
    this.later = setTimeout(() => this.writeAddress(), 250); // browsers allow few writes a second
    if (keys.every((key) => LOOKS.has(key))) this.redraw();
    else this.refresh();
  }

  writeAddress() {
    const query = writeState(this.state, this.grid);
    if (this.options.address) this.options.address(query);
    else address(query);
  }

  // What is shown, each step made anew only where what it depends on has changed.
  makeScene() {
    const { grid, state } = this;
    const once = (name, key, create) => {
      const text = JSON.stringify(key);
      if (this.kept[name]?.text !== text) this.kept[name] = { text, made: create() };
      return this.kept[name].made;
    };
    const { expression, wrong } = expressionOf(state.find);
    if (!wrong) this.expression = expression; // while an expression is being typed the last whole one holds
    this.wrong = wrong;
    const periods = chosenPeriods(grid, state);
    const data = once("data", periods, () => sumPeriods(grid, periods));
    const rows = once("rows", [state.models, state.metrics], () => rowsOf(state));
    const compared = [periods, state.models, state.metrics, state.baseline];
    const changes = once("changes", compared, () => makeChanges(grid, data, rows, state.baseline));
    const chosen = [compared, state.groups, this.expression?.source, state.floor, state.sort, state.row, state.width];
    const columns = once("columns", chosen, () => makeColumns(grid, data, state, this.expression, rows, changes));
    const cells = once("cells", chosen, () => arrangeCells(grid, state, rows, changes, columns));
    const bounds = once("bounds", [chosen, state.range, state.quantile], () => boundsOf(grid, state, rows, cells, columns));
    return { grid, state, rows, columns, cells, bounds, data };
  }

  refresh() {
    this.closeReport();
    const scene = (this.scene = this.makeScene());
    const n = scene.columns.columns.length - scene.columns.pinned;
    const several = this.state.by !== "one";
    this.empty.hidden = n > 0;
    this.empty.textContent = "No slice is left: choose another slicing, a wider expression, or fewer least impressions.";
    this.view.element.hidden = several || n === 0;
    this.panels.element.hidden = !several || n === 0;
    this.controls.sync(this.state, this.wrong);
    this.legend.sync(this.state, scene.bounds, this.shades());
    this.time.sync(this.state, this.shades());
    this.table.sync(scene);
    this.summarise(scene, n);
    if (several) this.panels.sync(scene, this.shades());
    else this.view.show(scene);
  }

  recolour() {
    const cell = this.keptCell;
    this.refresh();
    if (cell) this.point(cell, true);
  }

  // Other colours, or another part: the cells are the same.
  redraw() {
    if (this.state.by !== "one") return this.refresh();
    this.closeReport();
    this.scene = this.makeScene();
    this.legend.sync(this.state, this.scene.bounds, this.shades());
    this.table.sync(this.scene);
    this.view.scene = this.scene;
    this.view.draw();
  }

  summarise({ rows, columns, cells, data }, n) {
    if (this.summed === cells) return;
    this.summed = cells;
    const tested = rows.filter(({ model }) => model !== this.state.baseline).length * columns.columns.length;
    const all = columns.pinned ? `${whole(data.impressions[columns.columns[0]])} impressions · ` : "";
    const unknown = !data.whole && this.state.baseline !== this.grid.baseline;
    const said = unknown ? `against this baseline errors by period are not known, so little is marked` : `${whole(cells.count)} of ${whole(tested)} cells changed significantly`;
    this.said.textContent = `${all}${whole(n)} slices${columns.out ? `, ${whole(columns.out)} left out` : ""} · ${said}`;
  }

  point(cell, keep = false, spoken = false) {
    if (this.keptCell && !keep && !(spoken && cell)) {
      if (!cell && spoken) this.closeReport();
      return;
    }
    this.keptCell = keep ? cell : null;
    if (!cell) return this.report.hide();
    this.report.show(this.scene, cell, this.view.rectOf(cell), keep, this.shades());
    if (spoken) this.view.say(sentenceOf(this.scene, factsOf(this.scene, cell)));
  }

  closeReport() {
    this.keptCell = null;
    this.report.hide();
  }
}
