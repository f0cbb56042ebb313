// A small line of a series: as tall as its largest value, from 0.

import { svg } from "./dom.js";

const [WIDE, HIGH] = [60, 20];

// spark([3, 5, 2], "3 days from 2024-03-01")
export function spark(values, about) {
  const most = Math.max(...values, 1e-9);
  const drawing = svg("svg", { class: "spark", width: WIDE, height: HIGH, viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": `${about}: from ${Math.min(...values)} to ${Math.max(...values)}` });
  const y = (value) => (HIGH - 1.5 - (HIGH - 3) * (value / most)).toFixed(1);
  if (values.length < 8) {
    const step = WIDE / values.length;
    values.forEach((value, i) => drawing.append(svg("rect", { x: i * step + 1, y: y(value), width: Math.max(2, step - 2), height: HIGH - y(value), fill: "currentColor" })));
  } else {
    const points = values.map((value, i) => `${((WIDE - 2) * (i / (values.length - 1)) + 1).toFixed(1)},${y(value)}`);
    drawing.append(svg("polyline", { points: points.join(" "), fill: "none", stroke: "currentColor", "stroke-width": 1.5, "stroke-linejoin": "round" }));
  }
  return drawing;
}
