// Colours of cells: from blue (better) over a neutral tone to orange (worse), which the colour-blind tell apart too.

const STOPS = {
  light: ["#08407e", "#2f78ba", "#83b4dc", "#cfe2f1", "#f1f1ee", "#fbd9b5", "#f0a05a", "#cf6113", "#7f2f04"],
  dark: ["#a9dbff", "#5fa8e6", "#2f6fae", "#234866", "#2b3036", "#5c3f24", "#a8601f", "#e98b35", "#ffd09b"],
};
const STEPS = 512;

// What one theme paints with; colours are 0xAABBGGRR, as ImageData holds them.
export function shadesOf(theme) {
  const stops = STOPS[theme].map(rgbOf);
  const table = new Uint32Array(STEPS + 1);
  const dark = new Uint8Array(STEPS + 1);
  for (let i = 0; i <= STEPS; i++) {
    const place = (i / STEPS) * (stops.length - 1);
    const [a, b] = [stops[Math.floor(place)], stops[Math.min(stops.length - 1, Math.floor(place) + 1)]];
    const mixed = a.map((channel, c) => Math.round(channel + (b[c] - channel) * (place % 1)));
    table[i] = packed(mixed);
    dark[i] = luminance(mixed) < 0.2 ? 1 : 0; // where white has more contrast than black
  }
  const plain = (light, night) => packed(rgbOf(theme === "dark" ? night : light));
  return {
    theme, table, dark, steps: STEPS,
    paper: plain("#ffffff", "#14181d"), ink: plain("#17202a", "#e6eaee"), quiet: plain("#55606c", "#a3adb8"),
    hatch: plain("#c9d0d8", "#424b56"), black: packed([10, 14, 20]), white: packed([255, 255, 255]),
  };
}

// Where a change stands among the shades of ± bound; the ends are for all beyond.
export function shadeIndex(change, bound, steps) {
  const place = Math.round(((change / bound + 1) / 2) * steps);
  return place < 0 ? 0 : place > steps ? steps : place;
}

export function themeOf() {
  const chosen = document.documentElement.dataset.theme;
  if (chosen === "light" || chosen === "dark") return chosen;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

export const cssOf = (color) => `rgb(${color & 255} ${(color >> 8) & 255} ${(color >> 16) & 255})`;

const rgbOf = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
const packed = ([r, g, b]) => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;

function luminance(rgb) {
  const [r, g, b] = rgb.map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
