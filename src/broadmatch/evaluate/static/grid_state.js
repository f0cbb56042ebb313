// The state of the view and its address: what differs from the start is written, by names that people can read.

export const CHOICES = {
  width: { impressions: "impressions", clicks: "clicks", alike: "all alike" },
  sort: {
    size: "size, largest first", smallest: "size, smallest first", name: "name",
    change: "change, largest first", worse: "change, worst first", better: "change, best first",
    significance: "significance",
  },
  pixel: { mean: "mean", largest: "largest change" },
  number: { change: "change", value: "value" },
  quantile: { 90: "90 % of the area", 95: "95 % of the area", 99: "99 % of the area", 100: "all of it" },
  by: { one: "one grid", day: "a grid a day", hour: "a grid an hour of the day" },
};
const LISTS = { slicing: "groups", metric: "metrics", model: "models" };

// `row` is metric · models + model, or −1 for all rows; `range` holds a bound by hand for each metric, or nothing.
function startState(grid) {
  const every = (names) => names.map((_, i) => i);
  return {
    groups: [grid.groups.length > 1 && totalOf(grid) === 0 ? 1 : 0], metrics: every(grid.metrics), models: every(grid.models),
    baseline: grid.baseline, find: "", width: "impressions", sort: "size", row: -1, floor: 0, pixel: "mean",
    number: "change", quantile: "95", range: grid.metrics.map(() => 0), by: "one",
    from: 0, to: 1, start: 0, end: grid.periods.length, hour: -1,
  };
}

// The slice of all traffic, which has a place of its own; −1 if the grid has none.
export const totalOf = (grid) => (grid.groups[0]?.count === 1 ? grid.groups[0].first : -1);

// Whether periods are shorter than a day.
export const hasHours = ({ periods: [{ start, end }] }) => new Date(end) - new Date(start) < 86_400_000;

const namesOf = (grid, list) => grid[list].map((one) => one.name ?? one);

// What an address says of a grid; what it says wrongly is as at the start.
export function readState(query, grid) {
  const state = startState(grid);
  for (const [key, list] of Object.entries(LISTS)) {
    const names = namesOf(grid, list);
    const chosen = query.getAll(key).map((name) => names.indexOf(name)).filter((i) => i >= 0);
    if (chosen.length) state[list] = [...new Set(chosen)];
  }
  for (const [key, choices] of Object.entries(CHOICES)) if (Object.hasOwn(choices, query.get(key))) state[key] = query.get(key);
  const number = (key, low, high, otherwise) => {
    const value = query.has(key) ? Number(query.get(key)) : NaN;
    return value >= low && value <= high ? value : otherwise;
  };
  const baseline = grid.models.indexOf(query.get("baseline"));
  if (baseline >= 0) state.baseline = baseline;
  state.find = query.get("find") ?? "";
  state.row = Math.trunc(number("row", 0, grid.metrics.length * grid.models.length - 1, -1));
  state.floor = number("floor", 0, Infinity, 0);
  for (const text of query.getAll("range")) {
    const [, name, bound] = /^(.*):([^:]*)$/s.exec(text) ?? [];
    const metric = namesOf(grid, "metrics").indexOf(name);
    if (metric >= 0 && Number(bound) > 0 && Number(bound) < 1e9) state.range[metric] = Number(bound);
  }
  const [from, to] = [number("from", 0, 1, 0), number("to", 0, 1, 1)];
  if (from < to) [state.from, state.to] = [from, to];
  const P = grid.periods.length;
  const [start, end] = [Math.trunc(number("start", 0, P, 0)), Math.trunc(number("end", 0, P, P))];
  if (start < end) [state.start, state.end] = [start, end];
  if (P) state.hour = Math.trunc(number("hour", 0, 23, -1));
  return state;
}

export function writeState(state, grid) {
  const [query, start] = [new URLSearchParams(), startState(grid)];
  for (const [key, list] of Object.entries(LISTS)) {
    if (state[list].join() !== start[list].join()) for (const i of state[list]) query.append(key, namesOf(grid, list)[i]);
  }
  if (state.baseline !== start.baseline) query.set("baseline", grid.models[state.baseline]);
  for (const key of [...Object.keys(CHOICES), "find", "row", "floor", "start", "end", "hour"]) {
    if (state[key] !== start[key]) query.set(key, state[key]);
  }
  state.range.forEach((bound, metric) => bound > 0 && query.append("range", `${grid.metrics[metric].name}:${bound}`));
  const zoomed = state.from > 0 || state.to < 1;
  // As many digits as tell two pixels apart.
  const digits = Math.min(15, Math.max(4, 4 - Math.floor(Math.log10(state.to - state.from))));
  if (zoomed) for (const key of ["from", "to"]) query.set(key, Number(state[key].toFixed(digits)));
  return query;
}
