// The data of a grid: `decode` turns the bytes of a grid file into plain arrays of numbers (NaN: not known).
// K metrics, M models, S slices, P periods; at[k, m, s] is (k·M + m)·S + s, and at[p, k, m, s] ((p·K + k)·M + m)·S + s.
//
// {title, models[], baseline, level, metrics[{name, unit, best}], groups[{name, first, count}], slices[],
//  periods[{start, end}], left_out, notes[],
//  impressions, clicks [S], value [K, M, S], low, high [K, M, S]: how far the interval reaches below and above the value,
//  se [K, pairs, S]: standard error of the paired difference (see pairOf),
//  period_impressions, period_clicks [P, S], period_value [P, K, M, S], period_se [P, K, M, S]: against the baseline,
//  reliability_slices [R], reliability [R, M, 3, 10]: mean prediction, click rate, share of the weight of each bin}

const MAGIC = "BMGRID1\n";
const KINDS = {
  float64: Float64Array, float32: Float32Array, uint32: Uint32Array, int32: Int32Array,
  uint16: Uint16Array, uint8: Uint8Array, int8: Int8Array,
};

export function decode(buffer) {
  const { header, arrays, scales } = takeApart(buffer);
  const { models, metrics, slices, periods, baseline } = header;
  const [K, M, S, P] = [metrics.length, models.length, slices.length, periods.length];
  const found = { ...header, impressions: arrays.impressions, clicks: arrays.clicks, value: arrays.value };
  delete found.arrays;
  for (const name of ["low", "high", "se"]) found[name] = fromLog(arrays[name], scales[name].log, 1, K);
  for (const name of ["period_impressions", "period_clicks"]) found[name] = Float64Array.from(arrays[name] ?? []);
  found.period_value = P ? fromSteps(arrays, [P, K, M, S], baseline) : new Float32Array(0);
  found.period_se = P ? fromLog(arrays.period_se, scales.period_se.log, P, K) : new Float32Array(0);
  found.reliability_slices = arrays.reliability_slices ?? new Int32Array(0);
  found.reliability = fromRoot(arrays.reliability ?? []);
  return found;
}

// Where the pair of models i ≠ j stands in `se`.
export function pairOf(models, i, j) {
  const [a, b] = i < j ? [i, j] : [j, i];
  return a * models - (a * (a + 1)) / 2 + b - a - 1;
}

// The grid of a page: base64 of the deflated file.
export async function unpack(base64) {
  const letters = atob(base64.trim());
  const packed = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) packed[i] = letters.charCodeAt(i); // a callback for each would take seconds
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return decode(await new Response(stream).arrayBuffer());
}

function takeApart(buffer) {
  const wrong = (what) => new Error(`This is not a whole grid file: ${what}. Write it again with broadmatch gridviz.`);
  const bytes = new Uint8Array(buffer);
  if (bytes.length < 12 || String.fromCharCode(...bytes.subarray(0, 8)) !== MAGIC) throw wrong("it does not begin with BMGRID1");
  const length = new DataView(buffer).getUint32(8, true);
  if (length > bytes.length - 12) throw wrong("its header is cut off");
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(12, 12 + length)));
  const [arrays, scales] = [{}, {}];
  let at = 12 + length;
  for (const { name, dtype, shape, scale } of header.arrays) {
    const Kind = KINDS[dtype];
    if (!Kind) throw wrong(`array ${name} holds ${dtype}`);
    at += (8 - (at % 8)) % 8;
    const n = shape.reduce((product, side) => product * side, 1);
    if (n * Kind.BYTES_PER_ELEMENT > bytes.length - at) throw wrong(`array ${name} is cut off`);
    arrays[name] = new Kind(buffer, at, n);
    scales[name] = scale;
    at += n * Kind.BYTES_PER_ELEMENT;
  }
  const [K, M, S] = [header.metrics.length, header.models.length, header.slices.length];
  const sizes = { impressions: S, clicks: S, value: K * M * S, low: K * M * S, high: K * M * S, se: (K * S * M * (M - 1)) / 2 };
  const P = header.periods.length;
  if (P) Object.assign(sizes, { period_impressions: P * S, period_clicks: P * S, period_step: K * M * S, period_value: P * K * M * S, period_se: P * K * M * S });
  for (const [name, n] of Object.entries(sizes)) if (arrays[name]?.length !== n) throw wrong(`array ${name} is not ${n} numbers`);
  return { header, arrays, scales };
}

// Code q is top·(bottom/top)^(q/levels), then 0, then NaN; `ends` has [top, bottom] of each metric, `outer` stands before it.
function fromLog(codes, ends, outer, K) {
  const nan = codes.BYTES_PER_ELEMENT === 1 ? 255 : 65535;
  const found = new Float32Array(codes.length);
  const inner = codes.length / (outer * K) || 0;
  // A power of each low and of each high byte: their product is the power of both.
  const powers = (base, each) => Float64Array.from({ length: 256 }, (_, byte) => base ** ((byte * each) / (nan - 2)));
  const tables = ends.map(([top, bottom]) => [powers(bottom / top, 1), powers(bottom / top, 256), top]);
  for (let block = 0, at = 0; block < outer * K; block++) {
    const [low, high, top] = tables[block % K];
    for (let i = 0; i < inner; i++, at++) {
      const q = codes[at];
      found[at] = q < nan - 1 ? top * low[q & 255] * high[q >> 8] : q === nan ? NaN : 0;
    }
  }
  return found;
}

// Each cell in its own steps: the baseline around its value over the whole period, the others around their difference to it.
function fromSteps({ period_value: codes, period_step: step, value }, [P, K, M, S], baseline) {
  const found = new Float32Array(codes.length);
  for (let p = 0; p < P; p++) {
    for (let k = 0; k < K; k++) {
      const base = (k * M + baseline) * S;
      const own = ((p * K + k) * M + baseline) * S;
      for (let s = 0; s < S; s++) found[own + s] = codes[own + s] === 127 ? NaN : value[base + s] + codes[own + s] * step[base + s];
      for (let m = 0; m < M; m++) {
        if (m === baseline) continue;
        const [cell, at] = [(k * M + m) * S, ((p * K + k) * M + m) * S];
        for (let s = 0; s < S; s++) {
          found[at + s] = codes[at + s] === 127 ? NaN : found[own + s] + value[cell + s] - value[base + s] + codes[at + s] * step[cell + s];
        }
      }
    }
  }
  return found;
}

function fromRoot(codes) {
  const found = new Float32Array(codes.length);
  for (let i = 0; i < codes.length; i++) found[i] = codes[i] === 65535 ? NaN : (codes[i] / 65534) ** 2;
  return found;
}
