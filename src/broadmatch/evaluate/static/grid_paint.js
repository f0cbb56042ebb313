// Cells as pixels: one pass over an ImageData a frame, typed arrays only, nothing made for a cell.

import { FONT } from "./dom.js";
import { shadeIndex } from "./grid_colors.js";
import { changeText, valueText } from "./grid_numbers.js";

const GLYPHS = "0123456789+−.,%e–";

// What paints a grid; it keeps its buffers from frame to frame.
export class CellPainter {
  constructor() {
    this.width = 0;
    this.fonts = new Map();
  }

  reserve(width, n) {
    if (this.width !== width) {
      this.width = width;
      [this.line, this.under] = [new Uint32Array(width), new Uint32Array(width)];
      [this.sum, this.weight] = [new Float32Array(width), new Float32Array(width)];
      [this.mark, this.known] = [new Uint8Array(width), new Uint8Array(width)];
    }
    if (this.begin?.length >= n) return;
    [this.begin, this.end, this.share] = [new Int32Array(n), new Int32Array(n), new Float32Array(n)];
    this.runs = new Int32Array(n + 1);
  }

  // frame: {rows: [{top, height, strip, model, metric, isBaseline}], areas: [{x, width, first, last, left, right, scale,
  // offset, lines}]}, in pixels: column j of an area, from `first` to before `last`, begins at left[j] · scale + offset.
  // scene: {shades, bounds, cells (of arrangeCells), N columns, largest, font, metrics, values, value()}.
  paint(image, frame, scene) {
    const pixels = new Uint32Array(image.data.buffer);
    const clear = [scene.shades.theme, image.width, frame.rows.map(({ top }) => top)].join();
    if (this.clear !== clear || this.image !== image) pixels.fill(scene.shades.paper); // between rows it stays
    [this.clear, this.image] = [clear, image];
    this.reserve(image.width, scene.N);
    for (const area of frame.areas) Object.assign(area, this.place(area));
    frame.rows.forEach((row, r) => this.paintRow(pixels, image.width, frame, row, r, scene));
  }

  // In which pixels each column of an area begins and ends; one that ends where it begins is narrower than a pixel. Gives
  // those that have room for a line or a number, and where runs begin: a column, or all narrow ones of one pixel.
  place({ first, last, left, right, scale, offset, x, width }) {
    const { begin, end, share } = this;
    const edge = x + width;
    const wide = [];
    let runs = 0;
    let before = -1;
    for (let j = first; j < last; j++) {
      const a = left[j] * scale + offset;
      const b = right[j] * scale + offset;
      const start = Math.min(edge - 1, Math.max(x, Math.round(a)));
      begin[j] = start;
      end[j] = Math.min(edge, Math.round(b));
      share[j] = b - a;
      if (end[j] > start || start !== before) this.runs[runs++] = j;
      before = end[j] > start ? -1 : start;
      if (b - a >= 8) wide.push(j);
    }
    this.runs[runs] = last;
    return { wide, runs: this.runs.slice(0, runs + 1) };
  }

  paintRow(pixels, W, frame, row, r, scene) {
    const { line, under, sum, weight, mark, known } = this;
    const { shades, N } = scene;
    const bound = scene.bounds[row.metric];
    line.fill(shades.paper);
    under.fill(shades.paper);
    for (const area of frame.areas) {
      const [from, to] = [area.x, area.x + area.width];
      sum.fill(0, from, to);
      weight.fill(0, from, to);
      mark.fill(0, from, to);
      known.fill(0, from, to);
      this.scale = area.scale;
      if (scene.largest) this.gatherLargest(scene.cells, r * N, area);
      else this.gatherMean(scene.cells, r, N, area);
      const { table, steps } = shades;
      for (let p = from; p < to; p++) {
        if (weight[p] > 0) line[p] = table[shadeIndex(sum[p] / weight[p], bound, steps)];
        else if (known[p]) line[p] = shades.paper;
        if (mark[p]) under[p] = shades.ink;
      }
      if (area.lines) this.separate(area, shades.paper);
    }
    const body = row.height - row.strip;
    for (let y = row.top; y < row.top + body; y++) pixels.set(line, y * W);
    const quarter = row.strip >> 2; // of the strip below a cell, free above and below its mark
    for (let y = row.top + body + quarter; y < row.top + row.height - quarter; y++) pixels.set(under, y * W);
    this.hatch(pixels, W, frame, row, body, shades);
    if (body >= scene.font + 2) this.write(pixels, W, frame, row, r, body, scene);
  }

  // Columns of a pixel and more fill their pixels; the narrower ones of a pixel share it by their widths.
  gatherMean({ change, marked, sums, widths, counts }, r, N, { runs }) {
    const { begin, end, sum, weight, mark, known } = this;
    const at = r * (N + 1);
    for (let i = 0; i + 1 < runs.length; i++) {
      const first = runs[i];
      const last = runs[i + 1];
      const one = change[r * N + first];
      const single = last === first + 1 && one === one;
      const w = single ? 1 : widths[at + last] - widths[at + first];
      const s = single ? one : sums[at + last] - sums[at + first];
      const m = single ? marked[r * N + first] : counts[at + last] > counts[at + first] ? 1 : 0;
      const share = single ? Math.min(1, this.share[first]) : w * this.scale;
      const p = begin[first];
      for (let q = p; q === p || q < end[first]; q++) {
        known[q] = 1;
        if (!(w > 0)) continue;
        sum[q] += (s / w) * share;
        weight[q] += share;
        mark[q] |= m;
      }
    }
  }

  // The largest change wins the pixel, so that no outlier hides.
  gatherLargest({ change, marked }, at, { runs }) {
    const { begin, end, sum, weight, mark, known } = this;
    for (let i = 0; i + 1 < runs.length; i++) {
      const first = runs[i];
      let most = 0;
      let size = -1;
      let m = 0;
      for (let j = first; j < runs[i + 1]; j++) {
        const value = change[at + j];
        const own = value < 0 ? -value : value;
        if (own > size) {
          most = value;
          size = own;
        }
        m |= marked[at + j];
      }
      for (let q = begin[first]; q === begin[first] || q < end[first]; q++) {
        known[q] = 1;
        mark[q] |= m;
        if (size < 0 || (weight[q] > 0 && Math.abs(sum[q]) >= size)) continue;
        sum[q] = most;
        weight[q] = 1;
      }
    }
  }

  // A line of paper at the right of columns that are wide enough to spare it.
  separate({ wide, lines }, paper) {
    for (const j of wide) {
      if (this.end[j] - this.begin[j] < 8 * lines) continue;
      for (let p = this.end[j] - lines; p < this.end[j]; p++) {
        this.line[p] = paper;
        this.under[p] = paper;
      }
    }
  }

  // What is not known is hatched, so that it does not pass for "no change".
  hatch(pixels, W, frame, row, body, { hatch }) {
    const { known, weight } = this;
    for (const { x, width } of frame.areas) {
      for (let p = x; p < x + width; p++) {
        if (!known[p] || weight[p] > 0) continue;
        for (let y = row.top + ((6 - ((p + row.top) % 6)) % 6); y < row.top + body; y += 6) pixels[y * W + p] = hatch;
      }
    }
  }

  write(pixels, W, frame, row, r, body, scene) {
    const glyphs = this.glyphsOf(scene.font);
    const { shades, N, metrics } = scene;
    const metric = metrics[row.metric];
    const base = row.top + Math.round((body - glyphs.height) / 2);
    for (const area of frame.areas) {
      for (const j of area.wide) {
        const room = this.end[j] - this.begin[j] - 4 * (area.lines || 1);
        if (room < 3 * glyphs.wide) continue;
        const change = scene.cells.change[r * N + j];
        const asValue = scene.values || row.isBaseline;
        const value = asValue ? scene.value(row.metric, row.model, j) : change;
        if (value !== value) continue;
        let text = asValue ? valueText(value) : changeText(metric, change);
        if (glyphs.measure(text) > room) text = asValue ? valueText(value, 2) : text.replace("%", "");
        const length = glyphs.measure(text);
        if (length > room) continue;
        const onDark = shades.dark[shadeIndex(change === change ? change : 0, scene.bounds[row.metric], shades.steps)];
        const x = this.begin[j] + ((this.end[j] - this.begin[j] - (area.lines || 0) - length) >> 1);
        glyphs.draw(pixels, W, x, base, text, onDark ? shades.white : shades.black);
        scene.written?.(r, j, text);
      }
    }
  }

  glyphsOf(size) {
    if (!this.fonts.has(size)) this.fonts.set(size, new DigitGlyphs(size));
    return this.fonts.get(size);
  }
}

// Digits as coverage, drawn once: hundreds of numbers a frame cost less than a millisecond.
class DigitGlyphs {
  constructor(size) {
    const canvas = document.createElement("canvas");
    const pen = canvas.getContext("2d", { willReadFrequently: true });
    const font = `500 ${size}px ${FONT}`;
    pen.font = font;
    this.advance = new Map([...GLYPHS].map((letter) => [letter, Math.round(pen.measureText(letter).width)]));
    this.wide = this.advance.get("0");
    this.height = Math.round(0.74 * size);
    this.tall = size + 2;
    canvas.width = [...this.advance.values()].reduce((sum, width) => sum + width, 0);
    canvas.height = this.tall;
    pen.font = font;
    pen.textBaseline = "alphabetic";
    this.at = new Map();
    let x = 0;
    for (const [letter, width] of this.advance) {
      pen.fillText(letter, x, this.height + 1);
      this.at.set(letter, x);
      x += width;
    }
    this.stride = canvas.width;
    const drawn = pen.getImageData(0, 0, canvas.width, this.tall).data;
    this.cover = Uint8Array.from({ length: canvas.width * this.tall }, (_, i) => drawn[4 * i + 3]);
  }

  measure(text) {
    let width = 0;
    for (let i = 0; i < text.length; i++) width += this.advance.get(text[i]) ?? this.wide;
    return width;
  }

  draw(pixels, W, x, y, text, color) {
    const [r, g, b] = [color & 255, (color >> 8) & 255, (color >> 16) & 255];
    for (let i = 0; i < text.length; i++) {
      const [from, width] = [this.at.get(text[i]), this.advance.get(text[i])];
      for (let dy = 0; dy < this.tall; dy++) {
        for (let dx = 0; dx < width; dx++) {
          const cover = this.cover[dy * this.stride + from + dx];
          if (!cover) continue;
          const at = (y - 1 + dy) * W + x + dx;
          const under = pixels[at];
          const mix = (own, shift) => (own * cover + ((under >> shift) & 255) * (255 - cover)) / 255;
          pixels[at] = ((255 << 24) | (mix(b, 16) << 16) | (mix(g, 8) << 8) | mix(r, 0)) >>> 0;
        }
      }
      x += width;
    }
  }
}
