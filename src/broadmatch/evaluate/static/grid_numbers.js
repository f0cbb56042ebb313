// Numbers of cells as people read them.

// A change with its sign, as a share in per cent; in the metric's own unit where the best is 0.
export function changeText(metric, change) {
  if (!Number.isFinite(change)) return "–";
  const value = metric.best === "high" ? -change : change;
  const text = metric.best === "zero" ? plainText(value, 2) : `${perCent(value)}%`;
  return signedText(text);
}

export const valueText = (value, digits = 4) => (Number.isFinite(value) ? minus(plainText(value, digits)) : "–");

function plainText(value, digits) {
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 10 ** digits) return value.toFixed(0);
  return size < 1e-4 ? value.toExponential(digits - 1) : value.toPrecision(digits);
}

function perCent(share) {
  const size = Math.abs(100 * share);
  return (100 * share).toFixed(size >= 99.5 ? 0 : size >= 0.995 ? 1 : size >= 0.0995 ? 2 : 3);
}

const minus = (text) => text.replaceAll("-", "−");
const signedText = (text) => (!/[1-9]/.test(text) ? text.replace("-", "") : text.startsWith("-") ? minus(text) : minus(`+${text}`));

export const chanceText = (p) => (!Number.isFinite(p) ? "–" : p < 0.0001 ? "< 0.0001" : p.toPrecision(2));

// A slice's name on one line: no control characters, not longer than what fits on a screen, its direction its own.
export const nameText = (name, most = 120) => {
  const line = name.replace(/[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu, " ");
  return line.length > most ? `${line.slice(0, most - 1)}…` : line || "(empty)";
};

export const timeText = (stamp, withHour) => {
  const [day, hour] = [stamp.slice(0, 10), stamp.slice(11, 16)];
  return withHour ? `${day} ${hour}` : day;
};
