// The numbers behind the view: which columns stand where, how each cell changed, and which changes are significant.

import { pairOf } from "./grid_data.js";
import { totalOf } from "./grid_state.js";

const FALSE_DISCOVERIES = 0.05;

// The periods that are chosen; null if all are.
export function chosenPeriods(grid, { start, end, hour }) {
  if (start === 0 && end === grid.periods.length && hour < 0) return null;
  const chosen = [];
  for (let p = start; p < end; p++) if (hour < 0 || new Date(grid.periods[p].start).getUTCHours() === hour) chosen.push(p);
  return chosen;
}

// Values over periods: means weighted by impressions (AucLoss: by pairs of a click and a non-click); periods are taken
// as independent. Intervals of single models are known over the whole time only.
export function sumPeriods(grid, periods) {
  const { impressions, clicks, value, low, high } = grid;
  if (!periods) return { whole: true, impressions, clicks, value, low, high };
  const [K, M, S] = [grid.metrics.length, grid.models.length, grid.slices.length];
  const over = {
    whole: false, impressions: new Float64Array(S), clicks: new Float64Array(S),
    value: new Float32Array(K * M * S), se: new Float32Array(K * M * S), low: null, high: null,
  };
  for (const p of periods) {
    for (let s = 0; s < S; s++) {
      over.impressions[s] += grid.period_impressions[p * S + s];
      over.clicks[s] += grid.period_clicks[p * S + s];
    }
  }
  const [sum, squares, weights] = [new Float64Array(S), new Float64Array(S), new Float64Array(S)];
  for (let k = 0; k < K; k++) {
    const byPairs = grid.metrics[k].name === "AucLoss";
    for (let m = 0; m < M; m++) {
      for (const array of [sum, squares, weights]) array.fill(0);
      for (const p of periods) {
        const at = ((p * K + k) * M + m) * S;
        for (let s = 0; s < S; s++) {
          const v = grid.period_value[at + s];
          if (v !== v) continue;
          const n = grid.period_impressions[p * S + s];
          const c = grid.period_clicks[p * S + s];
          const weight = byPairs ? c * (n - c) : n;
          sum[s] += weight * v;
          squares[s] += (weight * grid.period_se[at + s]) ** 2;
          weights[s] += weight;
        }
      }
      const at = (k * M + m) * S;
      for (let s = 0; s < S; s++) {
        over.value[at + s] = sum[s] / weights[s];
        over.se[at + s] = Math.sqrt(squares[s]) / weights[s];
      }
    }
  }
  return over;
}

// Where the standard errors of the difference of two models are, as [array, start]; null if they are not known.
export function errorsOf(grid, data, metric, model, baseline) {
  const [M, S] = [grid.models.length, grid.slices.length];
  if (model === baseline) return null;
  if (data.whole) return [grid.se, ((metric * M * (M - 1)) / 2 + pairOf(M, model, baseline)) * S];
  const other = baseline === grid.baseline ? model : model === grid.baseline ? baseline : -1;
  return other < 0 ? null : [data.se, (metric * M + other) * S];
}

export const rowsOf = (state) => state.models.flatMap((model) => state.metrics.map((metric) => ({ model, metric })));

// Which rows of a metric are compared with the baseline.
const comparedRows = (rows, metric, { baseline }) => [...rows.keys()].filter((r) => rows[r].metric === metric && rows[r].model !== baseline);

// Of all slices and some rows: `change` is above 0 where a row is worse than the baseline, as a share of the baseline's
// value, or in the metric's own unit where the best is 0; `z` is the paired difference in standard errors.
export function makeChanges(grid, data, rows, baseline) {
  const [M, S] = [grid.models.length, grid.slices.length];
  const [change, z] = [new Float32Array(rows.length * S), new Float32Array(rows.length * S)];
  rows.forEach(({ model, metric }, r) => {
    const best = grid.metrics[metric].best;
    const [v, b, out] = [(metric * M + model) * S, (metric * M + baseline) * S, r * S];
    const [errors, e] = errorsOf(grid, data, metric, model, baseline) ?? [null, 0];
    const sign = best === "high" ? -1 : 1;
    for (let s = 0; s < S; s++) {
      const own = data.value[v + s];
      const base = data.value[b + s];
      const apart = best === "zero" ? Math.abs(own) - Math.abs(base) : (sign * (own - base)) / Math.abs(base);
      change[out + s] = apart - apart === 0 ? apart : NaN; // infinite where the baseline is 0
      z[out + s] = errors && errors[e + s] > 0 ? (own - base) / errors[e + s] : NaN;
    }
  });
  return { change, z };
}

// What a regular expression means, or what is wrong with it.
export function expressionOf(text) {
  try {
    return { expression: text ? new RegExp(text, "i") : null, wrong: "" };
  } catch (error) {
    return { expression: null, wrong: `${error.message.replace(/^Invalid regular expression: /, "")}.` };
  }
}

// Columns: the slice of each, from the left; column 0 is all traffic if `pinned` is 1, and has no place in `left` and
// `right` (from 0 to 1). Groups stand beside each other, each in the chosen order.
export function makeColumns(grid, data, state, expression, rows, changes) {
  const total = totalOf(grid);
  const least = Math.max(1, state.floor);
  const columns = total >= 0 ? [total] : [];
  const [pinned, sections] = [columns.length, []];
  let out = 0;
  for (const g of state.groups) {
    const { name, first, count } = grid.groups[g];
    const found = [];
    for (let s = first; s < first + count; s++) {
      if (s === total) continue;
      if (data.impressions[s] >= least && (!expression || expression.test(grid.slices[s]))) found.push(s);
      else out++;
    }
    const ordered = inOrder(Int32Array.from(found), grid, data, state, rows, changes);
    sections.push({ name, first: columns.length, count: ordered.length });
    for (const s of ordered) columns.push(s);
  }
  return { columns: Int32Array.from(columns), pinned, sections, out, ...placesOf(columns, pinned, sections, data, state.width) };
}

function inOrder(found, grid, data, { sort, row, width }, rows, { change, z }) {
  const S = grid.slices.length;
  const keys = new Float64Array(S);
  const sizes = width === "clicks" ? data.clicks : data.impressions;
  const every = [...rows.keys()];
  const chosen = every.filter((r) => rows[r].metric * grid.models.length + rows[r].model === row);
  const used = chosen.length ? chosen : every;
  const largest = (array, of) => {
    for (const s of found) {
      let most = -Infinity;
      for (const r of used) {
        const value = of(array[r * S + s]);
        if (value > most) most = value;
      }
      keys[s] = -most;
    }
  };
  if (sort === "size" || sort === "smallest") for (const s of found) keys[s] = sort === "size" ? -sizes[s] : sizes[s];
  else if (sort === "name") keys.set(namePlaces(grid));
  else largest(sort === "significance" ? z : change, { worse: (value) => value, better: (value) => -value }[sort] ?? Math.abs);
  return found.sort((a, b) => keys[a] - keys[b] || a - b);
}

const places = new WeakMap();

// Each slice's place by name, found once; digits count as numbers.
function namePlaces(grid) {
  if (!places.has(grid)) {
    const { compare } = new Intl.Collator("en", { numeric: true });
    const order = Int32Array.from(grid.slices, (_, s) => s).sort((a, b) => compare(grid.slices[a], grid.slices[b]) || a - b);
    const found = new Float64Array(order.length);
    order.forEach((s, place) => (found[s] = place));
    places.set(grid, found);
  }
  return places.get(grid);
}

const GAP = 0.006; // of the width, between groups

function placesOf(columns, pinned, sections, data, width) {
  const n = columns.length;
  const [left, right] = [new Float64Array(n), new Float64Array(n)];
  const sizes = width === "alike" ? null : data[width];
  let all = 0;
  for (let j = pinned; j < n; j++) all += sizes ? sizes[columns[j]] : 1;
  const gaps = GAP * Math.max(0, sections.filter(({ count }) => count).length - 1);
  let at = 0;
  for (const { first, count } of sections) {
    for (let j = first; j < first + count; j++) {
      left[j] = at;
      at += all > 0 ? ((sizes ? sizes[columns[j]] : 1) / all) * (1 - gaps) : 0;
      right[j] = at;
    }
    if (count) at += GAP;
  }
  return { left, right };
}

// The cells in the order of the columns, and which are significant (Benjamini and Hochberg, 1995): the family of a
// metric is all of its cells that are shown.
export function arrangeCells(grid, state, rows, changes, { columns, left, right }) {
  const [S, N] = [grid.slices.length, columns.length];
  const [change, z] = [new Float32Array(rows.length * N), new Float32Array(rows.length * N)];
  for (let r = 0; r < rows.length; r++) {
    for (let j = 0; j < N; j++) {
      change[r * N + j] = changes.change[r * S + columns[j]];
      z[r * N + j] = changes.z[r * S + columns[j]];
    }
  }
  const marked = new Uint8Array(rows.length * N);
  let count = 0;
  for (const metric of state.metrics) {
    const own = comparedRows(rows, metric, state);
    const least = discoveryBound(own.map((r) => z.subarray(r * N, r * N + N)));
    for (const r of own) for (let at = r * N; at < r * N + N; at++) if (Math.abs(z[at]) >= least) count += (marked[at] = 1);
  }
  return { change, z, marked, count, ...runningSums(change, marked, left, right, rows.length) };
}

// Sums over a row's columns from the left, so that the mean of any run of columns is two look-ups: of the change times
// the width, of the width, and how many are marked.
function runningSums(change, marked, left, right, R) {
  const N = left.length;
  const size = R * (N + 1);
  const [sums, widths, counts] = [new Float64Array(size), new Float64Array(size), new Uint32Array(size)];
  for (let r = 0; r < R; r++) {
    let [s, w, m] = [0, 0, 0];
    for (let j = 0, at = r * N, out = r * (N + 1); j < N; j++) {
      const value = change[at + j];
      if (value === value) {
        const width = right[j] - left[j];
        s += value * width;
        w += width;
        m += marked[at + j];
      }
      sums[out + j + 1] = s;
      widths[out + j + 1] = w;
      counts[out + j + 1] = m;
    }
  }
  return { sums, widths, counts };
}

// From which |z| on a cell is significant. The largest t with t ≤ q · #{p ≤ t} / n is what sorting would find: counting
// anew from t = q downwards comes to it from above, without a sort.
function discoveryBound(families) {
  let n = 0;
  for (const family of families) for (let i = 0; i < family.length; i++) if (family[i] === family[i]) n++;
  const p = new Float64Array(n);
  let at = 0;
  for (const family of families) for (let i = 0; i < family.length; i++) if (family[i] === family[i]) p[at++] = pValue(family[i]);
  let bound = FALSE_DISCOVERIES;
  for (;;) {
    let found = 0;
    for (let i = 0; i < n; i++) if (p[i] <= bound) found++;
    const next = (FALSE_DISCOVERIES * found) / n;
    if (!found) return Infinity;
    if (next >= bound) break;
    bound = next;
  }
  let least = Infinity;
  at = 0;
  for (const family of families) {
    for (let i = 0; i < family.length; i++) {
      if (family[i] === family[i] && p[at++] <= bound && Math.abs(family[i]) < least) least = Math.abs(family[i]);
    }
  }
  return least;
}

const ERFC = [0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806, 0.09678418, 0.37409196, 1.00002368];

// Two-sided, of a normal deviate; relative error below 1.2e-7 (Press et al., Numerical Recipes, §6.2).
export function pValue(z) {
  const x = Math.abs(z) / Math.SQRT2;
  const t = 1 / (1 + 0.5 * x);
  let sum = 0;
  for (let i = 0; i < ERFC.length; i++) sum = sum * t + ERFC[i];
  return Math.min(1, t * Math.exp(-x * x - 1.26551223 + t * sum));
}

// How far the colours of each metric reach: by hand, or to the change that a share of the shown area stays below.
export function boundsOf(grid, state, rows, cells, { columns, pinned, left, right }) {
  const N = columns.length;
  return grid.metrics.map((_, metric) => {
    if (state.range[metric] > 0) return state.range[metric];
    const own = comparedRows(rows, metric, state);
    const sizes = [];
    if (state.quantile === "100") {
      for (const r of own) for (let j = 0; j < N; j++) sizes.push(Math.abs(cells.change[r * N + j]));
    } else {
      const looks = 1000; // evenly over the width: wide columns are met as often as they are wide
      for (let i = 0, j = pinned; i < looks && j < N; i++) {
        while (j < N && right[j] <= (i + 0.5) / looks) j++;
        if (j < N && left[j] <= (i + 0.5) / looks) for (const r of own) sizes.push(Math.abs(cells.change[r * N + j]));
      }
    }
    const known = Float32Array.from(sizes).filter((size) => size === size).sort();
    const bound = known[Math.min(known.length - 1, Math.floor((Number(state.quantile) / 100) * known.length))];
    return bound > 0 ? Number(bound.toPrecision(2)) : grid.metrics[metric].best === "zero" ? 0.001 : 0.01;
  });
}

// The column at a place from 0 to 1; −1 between groups.
export function columnAt({ columns, pinned, left, right }, place) {
  const j = lowest(pinned, columns.length, (middle) => right[middle] > place);
  return j < columns.length && left[j] <= place ? j : -1;
}

// The columns between the ends of the view: the first, and the first after them.
export function visible({ pinned, left, right }, { from, to }) {
  const first = lowest(pinned, right.length, (j) => right[j] > from);
  return [first, lowest(first, left.length, (j) => left[j] >= to)];
}

function lowest(low, high, holds) {
  while (low < high) {
    const middle = (low + high) >> 1;
    if (holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}
