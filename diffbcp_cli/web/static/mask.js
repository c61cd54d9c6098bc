// The mask, in tiles that exist where something is painted, and its history without end.
// A tile is a canvas whose alpha is 255 where the mask fills, 0 elsewhere; history keeps one bit a pixel.

export const TILE = 512;
export const TINT = "#ff2e6b";

export class Mask {
  constructor(width, height) {
    this.width = width;
    this.height = height;
    this.tiles = new Map();
    this.past = [];
    this.future = [];
    this.before = null; // of the change under way: packed tiles by key
  }

  columns() { return Math.ceil(this.width / TILE); }
  rows() { return Math.ceil(this.height / TILE); }

  tile(key) {
    let found = this.tiles.get(key);
    if (!found) {
      const canvas = new OffscreenCanvas(TILE, TILE);
      const context = canvas.getContext("2d", { willReadFrequently: true });
      found = { canvas, context, x: (key % this.columns()) * TILE, y: Math.floor(key / this.columns()) * TILE };
      this.tiles.set(key, found);
    }
    return found;
  }

  keys(box) {
    const [left, top] = [Math.max(0, Math.floor(box.left / TILE)), Math.max(0, Math.floor(box.top / TILE))];
    const right = Math.min(this.columns() - 1, Math.floor(box.right / TILE));
    const bottom = Math.min(this.rows() - 1, Math.floor(box.bottom / TILE));
    const found = [];
    for (let row = top; row <= bottom; row++) {
      for (let column = left; column <= right; column++) found.push(row * this.columns() + column);
    }
    return found;
  }

  whole() { return { left: 0, top: 0, right: this.width - 1, bottom: this.height - 1 }; }

  // One change: begin, draw any number of times, end. What it touched is remembered.
  begin(label = "") { this.before = new Map(); this.label = label; }

  draw(box, paint, erase = false) {
    for (const key of this.keys(box)) {
      if (erase && !this.tiles.has(key)) continue;
      this.remember(key);
      const { context, x, y } = this.tile(key);
      context.save();
      context.translate(-x, -y);
      context.beginPath();
      context.rect(0, 0, this.width, this.height);
      context.clip();
      context.globalCompositeOperation = erase ? "destination-out" : "source-over";
      context.fillStyle = context.strokeStyle = TINT;
      context.lineCap = context.lineJoin = "round";
      context.beginPath();
      paint(context);
      context.restore();
    }
  }

  remember(key) {
    if (!this.before.has(key)) this.before.set(key, this.tiles.has(key) ? pack(this.tiles.get(key)) : null);
  }

  end() {
    const changes = [];
    for (const [key, before] of this.before) {
      const tile = this.tiles.get(key);
      const after = tile ? sharpen(tile) : null;
      if (!after) this.tiles.delete(key);
      if (!same(before, after)) changes.push({ key, before, after });
    }
    this.before = null;
    if (!changes.length) return false;
    this.past.push({ label: this.label, changes });
    this.future = [];
    return true;
  }

  undo() { return this.step(this.past, this.future, "before"); }
  redo() { return this.step(this.future, this.past, "after"); }

  step(from, to, which) {
    const change = from.pop();
    if (!change) return false;
    for (const one of change.changes) this.put(one.key, one[which]);
    to.push(change);
    return true;
  }

  put(key, bits) {
    if (!bits) { this.tiles.delete(key); return; }
    const tile = this.tile(key);
    tile.context.putImageData(unpack(bits), 0, 0);
  }

  invert() {
    this.begin("invert");
    for (const key of this.keys(this.whole())) {
      this.remember(key);
      const { context, x, y } = this.tile(key);
      context.globalCompositeOperation = "xor";
      context.fillStyle = TINT;
      context.fillRect(0, 0, this.width - x, this.height - y);
      context.globalCompositeOperation = "source-over";
    }
    return this.end();
  }

  clear() {
    this.begin("clear");
    for (const [key, tile] of this.tiles) {
      this.remember(key);
      tile.context.clearRect(0, 0, TILE, TILE);
    }
    return this.end();
  }

  // Take in a picture that is white where it fills. replace: nothing else stays.
  take(bitmap, { replace, label }) {
    const from = new OffscreenCanvas(TILE, TILE);
    const context = from.getContext("2d", { willReadFrequently: true });
    this.begin(label);
    for (const key of this.keys(this.whole())) {
      const [x, y] = [(key % this.columns()) * TILE, Math.floor(key / this.columns()) * TILE];
      context.globalCompositeOperation = "copy";
      context.drawImage(bitmap, -x, -y);
      const data = context.getImageData(0, 0, TILE, TILE);
      const values = new Uint32Array(data.data.buffer);
      let any = false;
      for (let i = 0; i < values.length; i++) {
        const white = (values[i] & 0xff) > 127;
        values[i] = white ? 0xff6b2eff : 0;
        any ||= white;
      }
      if (!any && (!replace || !this.tiles.has(key))) continue;
      this.remember(key);
      const tile = this.tile(key);
      context.putImageData(data, 0, 0);
      tile.context.globalCompositeOperation = replace ? "copy" : "source-over";
      tile.context.drawImage(from, 0, 0);
      tile.context.globalCompositeOperation = "source-over";
    }
    return this.end();
  }

  // The share of the picture that the mask fills.
  share() {
    let count = 0;
    for (const tile of this.tiles.values()) for (const byte of pack(tile) ?? []) count += ONES[byte];
    return count / (this.width * this.height);
  }

  async png() {
    const canvas = new OffscreenCanvas(this.width, this.height);
    const context = canvas.getContext("2d");
    for (const { canvas: tile, x, y } of this.tiles.values()) context.drawImage(tile, x, y);
    context.globalCompositeOperation = "source-in";
    context.fillStyle = "#fff";
    context.fillRect(0, 0, this.width, this.height);
    context.globalCompositeOperation = "destination-over";
    context.fillStyle = "#000";
    context.fillRect(0, 0, this.width, this.height);
    return canvas.convertToBlob({ type: "image/png" });
  }
}

const ONES = Uint8Array.from({ length: 256 }, (_, n) => n.toString(2).replaceAll("0", "").length);

function pack(tile) {
  const values = new Uint32Array(tile.context.getImageData(0, 0, TILE, TILE).data.buffer);
  const bits = new Uint8Array(values.length / 8);
  let any = 0;
  for (let i = 0; i < values.length; i++) {
    if (values[i] >>> 31) { bits[i >> 3] |= 1 << (i & 7); any = 1; }
  }
  return any ? bits : null;
}

function unpack(bits) {
  const data = new ImageData(TILE, TILE);
  const values = new Uint32Array(data.data.buffer);
  for (let i = 0; i < values.length; i++) if (bits[i >> 3] & (1 << (i & 7))) values[i] = 0xff6b2eff;
  return data;
}

// A pixel is filled or it is not: the soft edges that drawing leaves are rounded.
function sharpen(tile) {
  const bits = pack(tile);
  if (bits) tile.context.putImageData(unpack(bits), 0, 0);
  return bits;
}

function same(one, other) {
  if (!one || !other) return one === other;
  return one.every((value, i) => value === other[i]);
}
