// What one chooses with: lists to tick, menus, a regular expression, numbers; and the legend, which holds the range.

import { fill, make, select, whole } from "./dom.js";
import { cssOf } from "./grid_colors.js";
import { nameText } from "./grid_numbers.js";
import { CHOICES, hasHours, totalOf } from "./grid_state.js";

// The controls of a grid: `change(patch)` is told what was chosen, `sync(state)` shows it.
export function makeControls(grid, change) {
  const groups = grid.groups.map(({ name, count }, i) => [i, `${nameText(name, 60)} (${whole(count)})`]).filter(([i]) => i || totalOf(grid) < 0);
  const named = (list) => list.map((one, i) => [i, nameText(one.name ?? one, 60)]);
  const menu = (text, key, options = Object.entries(CHOICES[key]), convert = (value) => value) => {
    const label = select(text, options, null, (value) => change({ [key]: convert(value) }));
    return { element: label, sync: (state) => (label.lastChild.value = state[key]) };
  };
  const parts = [
    tickList("Slicing", groups, "groups", change, (i) => grid.groups[i].name),
    tickList("Metrics", named(grid.metrics), "metrics", change),
    tickList("Models", named(grid.models), "models", change),
    menu("Baseline", "baseline", named(grid.models), Number),
    findField(change),
    menu("Order", "sort"),
    menu("… of row", "row", rowChoices(grid), Number),
  ];
  const finer = [
    menu("Width of columns", "width"),
    menu("Number in cells", "number"),
    menu("Narrower than a pixel", "pixel"),
    menu("Colours reach over", "quantile"),
    numberField("Least impressions", "floor", change),
    grid.periods.length > 1 && menu("Time", "by", timeChoices(grid)),
  ].filter(Boolean);
  const bar = (those) => make("div.bar", those.map((part) => part.element));
  const element = make("div.grid-controls", bar(parts), make("details.grid-more", make("summary", "More settings"), bar(finer)));
  return {
    element,
    sync(state, wrong) {
      for (const part of [...parts, ...finer]) part.sync(state, wrong);
    },
    // Whoever clicks elsewhere is done with a list.
    close(target) {
      for (const { element: part } of parts) if (part.open && !part.contains(target)) part.open = false;
    },
  };
}

function rowChoices(grid) {
  return [[-1, "all rows"], ...grid.models.flatMap((model, m) => grid.metrics.map(({ name }, k) => [k * grid.models.length + m, `${nameText(name, 30)} of ${nameText(model, 40)}`]))];
}

const timeChoices = (grid) => Object.entries(CHOICES.by).filter(([by]) => by !== "hour" || hasHours(grid));

function numberField(text, key, change) {
  const input = make("input", { type: "number", min: "0", step: "1", oninput: () => change({ [key]: Math.max(0, Number(input.value) || 0) }) });
  return { element: make("label", text, input), sync: (state) => document.activeElement !== input && (input.value = state[key] || "") };
}

function findField(change) {
  const said = make("span.bad.grid-wrong", { id: "grid-wrong", role: "alert" });
  const input = make("input.mono", {
    type: "search", spellcheck: false, placeholder: "regular expression", "aria-describedby": "grid-wrong",
    oninput: () => change({ find: input.value }),
  });
  return {
    element: make("label.grid-find", "Slices by name", input, said),
    sync(state, wrong) {
      if (document.activeElement !== input) input.value = state.find;
      input.setAttribute("aria-invalid", Boolean(wrong));
      if (said.textContent !== wrong) said.textContent = wrong;
    },
  };
}

// A drop-down list of boxes, of which one at least stays ticked.
function tickList(text, choices, key, change, shortName) {
  const boxes = choices.map(([i, name]) => {
    const box = make("input", { type: "checkbox", onchange: () => choose(box) });
    return { i, name, box, line: make("label.row", box, make("span.text", name)) };
  });
  const said = make("span.grid-chosen.text");
  const summary = make("summary", make("span.quiet", text), said);
  const list = make("details.grid-ticks", summary, make("div.grid-tick-list.card", { role: "group", label: text }, boxes.map(({ line }) => line)));
  function choose(box) {
    const chosen = boxes.filter((one) => one.box.checked).map(({ i }) => i);
    if (chosen.length) change({ [key]: chosen });
    else box.checked = true;
  }
  list.addEventListener("keydown", (e) => {
    if (e.key !== "Escape" || !list.open) return;
    list.open = false;
    summary.focus();
  });
  return {
    element: list,
    sync(state) {
      for (const { i, box } of boxes) box.checked = state[key].includes(i);
      const names = state[key].map((i) => (shortName ? nameText(shortName(i), 40) : boxes.find((one) => one.i === i)?.name ?? ""));
      said.textContent = names.length === boxes.length && names.length > 2 ? `all ${names.length}` : names.join(", ");
    },
  };
}

// One scale for each metric, whose end can be set by hand.
export function makeLegend(grid, change) {
  const element = make("div.grid-legend");
  let [state, shown] = [null, ""];
  const bars = new Map();
  function build(metrics) {
    bars.clear();
    const found = metrics.map((k) => {
      const metric = grid.metrics[k];
      const unit = metric.best === "zero" ? metric.unit : "%";
      const canvas = make("canvas", { width: 257, height: 1, "aria-hidden": "true" });
      const input = make("input.number", {
        type: "number", min: "0", step: "any", label: `Range of ${metric.name}${unit ? ` in ${unit}` : ""}`,
        onchange: () => set(k, Number(input.value) / (metric.best === "zero" ? 1 : 100)),
      });
      const reset = make("button.plain", { title: "By quantile again", label: `Range of ${metric.name} by quantile again`, onclick: () => set(k, 0) }, "↺");
      bars.set(k, { canvas, input, reset });
      return make("div.grid-scale", make("strong", nameText(metric.name, 30)), canvas, make("span", "±"), input, make("span", unit), reset);
    });
    const key = (kind, text, title) => make("span.grid-key", { title }, make("span", { class: `grid-key-${kind}`, "aria-hidden": "true" }), text);
    const marks = make("div.grid-scale", key("better", "better"), key("worse", "worse"), key("mark", "significant", "Benjamini–Hochberg over all cells shown of a metric, q = 0.05, paired differences"), key("none", "not known"));
    fill(element, found, marks);
  }
  function set(k, bound) {
    const range = [...state.range];
    range[k] = bound > 0 && Number.isFinite(bound) ? bound : 0;
    change({ range });
  }
  return {
    element,
    sync(now, bounds, shades) {
      state = now;
      if (shown !== now.metrics.join()) build(now.metrics);
      shown = now.metrics.join();
      for (const [k, { canvas, input, reset }] of bars) {
        const value = grid.metrics[k].best === "zero" ? bounds[k] : 100 * bounds[k];
        if (document.activeElement !== input) input.value = Number(value.toPrecision(3));
        reset.hidden = !(now.range[k] > 0);
        if (canvas.dataset.theme === shades.theme) continue;
        canvas.dataset.theme = shades.theme;
        const pen = canvas.getContext("2d");
        for (let x = 0; x <= 256; x++) {
          pen.fillStyle = cssOf(shades.table[Math.round((x / 256) * shades.steps)]);
          pen.fillRect(x, 0, 1, 1);
        }
      }
    },
  };
}
