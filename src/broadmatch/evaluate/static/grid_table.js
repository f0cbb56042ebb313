// The same numbers as a table, page by page: for screen readers, and for those who want to read numbers.

import { clamp, fill, make, whole } from "./dom.js";
import { changeText, nameText, valueText } from "./grid_numbers.js";

const PAGE = 25;

export function makeTable() {
  let [scene, page] = [null, 0];
  const body = make("div.scroll", { tabindex: "0", role: "region", label: "Table of the grid" });
  const said = make("span.quiet", { role: "status" });
  const turn = (step) => () => {
    page += step;
    draw();
  };
  const before = make("button", { onclick: turn(-1) }, "Previous");
  const after = make("button", { onclick: turn(1) }, "Next");
  const element = make("details.grid-table", make("summary", "As a table"), make("div.bar", before, after, said), body);
  element.addEventListener("toggle", () => draw());
  function draw() {
    if (!scene || !element.open) return;
    const n = scene.columns.columns.length;
    const pages = Math.max(1, Math.ceil(n / PAGE));
    page = clamp(page, 0, pages - 1);
    [before.disabled, after.disabled] = [page === 0, page === pages - 1];
    said.textContent = `Slices ${whole(n ? page * PAGE + 1 : 0)} to ${whole(Math.min(n, (page + 1) * PAGE))} of ${whole(n)}; changes against ${nameText(scene.grid.models[scene.state.baseline], 60)}, an asterisk where they are significant.`;
    fill(body, tableOf(scene, page * PAGE, Math.min(n, (page + 1) * PAGE)));
  }
  return {
    element,
    sync(now) {
      if (scene?.columns !== now.columns) page = 0;
      scene = now;
      draw();
    },
  };
}

function tableOf({ grid, state, rows, columns, cells, data }, first, last) {
  const [M, S, N] = [grid.models.length, grid.slices.length, columns.columns.length];
  const heads = rows.map(({ model, metric }) => make("th.number", { scope: "col" }, nameText(grid.metrics[metric].name, 30), make("br"), nameText(grid.models[model], 30)));
  const lines = [];
  for (let j = first; j < last; j++) {
    const s = columns.columns[j];
    const values = rows.map(({ model, metric }, r) => {
      const value = valueText(data.value[(metric * M + model) * S + s]);
      if (model === state.baseline) return make("td.number", value);
      const mark = cells.marked[r * N + j] ? "*" : "";
      return make("td.number", state.number === "value" ? `${value}${mark}` : `${changeText(grid.metrics[metric], cells.change[r * N + j])}${mark}`);
    });
    lines.push(make("tr", make("th.text", { scope: "row" }, nameText(grid.slices[s])), make("td.number", whole(data.impressions[s])), make("td.number", whole(data.clicks[s])), values));
  }
  const head = make("tr", make("th", { scope: "col" }, "Slice"), make("th.number", { scope: "col" }, "Impressions"), make("th.number", { scope: "col" }, "Clicks"), heads);
  return make("table", make("caption.hidden-text", grid.title), make("thead", head), make("tbody", lines));
}
