// The view as a PNG: title, labels, cells and legend, as they are on the screen.

import { FONT, make, save } from "./dom.js";
import { cssOf } from "./grid_colors.js";
import { nameText } from "./grid_numbers.js";
import { fitting } from "./grid_view.js";

const [TITLE, LEGEND] = [44, 58];

function drawPicture({ grid, state, bounds }, view, shades) {
  const { at, canvas, dots } = view;
  view.drawNow();
  const width = at.gutter + at.x + at.width + 16;
  const picture = make("canvas", { width: Math.round(width * dots), height: Math.round((TITLE + at.height + LEGEND) * dots) });
  const pen = picture.getContext("2d");
  pen.fillStyle = cssOf(shades.paper);
  pen.fillRect(0, 0, picture.width, picture.height);
  pen.drawImage(canvas, Math.round((at.gutter + 8) * dots), TITLE * dots);
  pen.scale(dots, dots);
  pen.fillStyle = cssOf(shades.ink);
  const write = (text, x, y, room, font) => {
    pen.font = `${font} ${FONT}`;
    pen.fillText(fitting(pen, text, room), x, y);
  };
  write(nameText(grid.title), 12, 27, width - 24, "600 17px");
  at.rows.forEach(({ model, metric, top, height }, r) => {
    const first = r === 0 || at.rows[r - 1].model !== model;
    if (first) write(nameText(grid.models[model]) + (model === state.baseline ? " (baseline)" : ""), 12, TITLE + top + (at.narrow ? -6 : height / 2 + 4), at.narrow ? width : 94, "600 12px");
    write(nameText(grid.metrics[metric].name), at.narrow ? 12 : 112, TITLE + top + height / 2 + 3, 78, "11px");
  });
  let x = 12;
  for (const k of state.metrics) {
    const y = TITLE + at.height + 14;
    for (let i = 0; i < 120; i++) {
      pen.fillStyle = cssOf(shades.table[Math.round((i / 119) * shades.steps)]);
      pen.fillRect(x + i, y, 1.5, 10);
    }
    pen.fillStyle = cssOf(shades.ink);
    const zero = grid.metrics[k].best === "zero";
    const bound = Number(((zero ? 1 : 100) * bounds[k]).toPrecision(3));
    write(`${nameText(grid.metrics[k].name, 20)} ± ${bound}${zero ? "" : " %"}`, x, y + 26, 132, "11px");
    x += 140;
  }
  return picture;
}

export function savePicture(scene, view, shades) {
  drawPicture(scene, view, shades).toBlob((blob) => {
    save(blob, `${scene.grid.title.replace(/[^\p{L}\p{N}]+/gu, "-").slice(0, 60) || "grid"}.png`);
  });
}
