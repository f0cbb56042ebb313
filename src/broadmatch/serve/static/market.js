// The market: arms of a closed loop by day, with intervals.

import { call } from "./api.js";
import { chart } from "./chart.js";
import { address, fill, make, select, state, table, whole } from "./dom.js";

export const title = "Market";

export async function show(main, query) {
  const { runs } = await call("GET", "/v1/studio/loop");
  const head = make("h1", title);
  if (!runs.length) return fill(main, head, state("No loop is here. `broadmatch simulate market/ --arms own,swiftxml --json > loop.json` runs one, and `broadmatch publish studio server/ --loop loop.json` brings it."));
  draw(main, query, runs, head);
}

function draw(main, query, runs, head) {
  const run = runs.find((one) => one.name === query.get("run")) ?? runs[0];
  const measures = Object.keys(run.arms[0].figures);
  const measure = measures.includes(query.get("measure")) ? query.get("measure") : measures[0];
  const keep = (name) => (value) => {
    query.set(name, value);
    address(`market?${query}`);
    draw(main, query, runs, head);
  };
  const text = (value) => (value === null || !Number.isFinite(value) ? "–" : Number(value.toPrecision(4)).toString());
  const between = (value, say = text) => [say(value[0]), value[1] === null ? "–" : `${say(value[1])} to ${say(value[2])}`];
  const days = run.arms[0].by_day[measure].map((_, i) => i + 1);
  const host = make("div");
  const relative = (value) => (value === null ? "–" : `${value.toFixed(1)} %`);
  fill(main,
    head,
    make("p.quiet", `Arms side by side on ${run.days} simulated days; bands hold 95 % of bootstrap samples of sessions. The table is of the days after day ${run.burn_in}, by when click models have found their feet.`),
    make("div.bar", runs.length > 1 && select("Run", runs.map((one) => one.name), run.name, keep("run")), select("Measure", measures, measure, keep("measure"))),
    make("section.card", host),
    make("h2", `${measure}, days ${Math.min(run.burn_in + 1, run.days)} to ${run.days}`),
    table("Arms", ["Arm", `#${measure}`, "#95 %", `#in % of ${run.arms[0].name}`, "#95 %", "#Searches"],
      run.arms.map((arm, i) => [arm.name, ...between(arm.figures[measure]), ...(i ? between(arm.relative[measure], relative) : ["100 %", "–"]), whole(arm.searches)])));
  chart(host, {
    label: `${measure} by day`, x: { label: "day", text: String, ticks: days }, y: { label: measure, text },
    series: run.arms.map((arm) => ({ name: arm.name, points: arm.by_day[measure].map((value, i) => [i + 1, ...value]) })),
  });
}
