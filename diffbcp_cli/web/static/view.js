// Where the picture is on the screen, and how it is drawn: from a pyramid, so that a large one is as quick as a small one.

import { TILE } from "./mask.js";

const MOST = 8; // 800 %
const LEVELS = 4;

export async function pyramid(blob) {
  const full = await createImageBitmap(blob);
  const levels = [full];
  while (levels.length < LEVELS && Math.max(levels.at(-1).width, levels.at(-1).height) > 1200) {
    const last = levels.at(-1);
    levels.push(await createImageBitmap(last, {
      resizeWidth: Math.ceil(last.width / 2), resizeHeight: Math.ceil(last.height / 2), resizeQuality: "medium",
    }));
  }
  return { width: full.width, height: full.height, levels };
}

export function release(picture) { for (const level of picture?.levels ?? []) level.close(); }

export class View {
  constructor(stage, canvas, overlay) {
    Object.assign(this, { stage, canvas, overlay, scale: 1, x: 0, y: 0, width: 1, height: 1 });
    this.left = this.right = null; // pictures; with two, a divider lies between them
    this.cut = 0.5;
    this.panels = null; // pictures beside each other, in place of left and right, all at the same place and scale
    this.columns = this.rows = 1;
    this.mask = null;
    this.opacity = 0.55;
    this.faint = false;  // while a preview shows what is under the mask
    this.cursor = null; // { x, y, radius, shape }
    this.pending = 0;
    this.frames = 0;
    new ResizeObserver(() => this.resize()).observe(stage);
  }

  // The part of the stage that one picture has.
  get wide() { return this.stage.clientWidth / this.columns; }
  get tall() { return this.stage.clientHeight / this.rows; }

  // Show pictures beside each other, in as many columns as let them be largest; null: one place again.
  arrange(panels) {
    const count = panels?.length ?? 1, before = `${this.columns} ${this.rows}`;
    this.panels = panels;
    let best = 0;
    for (let columns = 1; columns <= count; columns++) {
      const rows = Math.ceil(count / columns);
      const scale = Math.min(this.stage.clientWidth / columns / this.width, this.stage.clientHeight / rows / this.height);
      if (scale > best) { best = scale; Object.assign(this, { columns, rows }); }
    }
    if (before !== `${this.columns} ${this.rows}`) this.fit(); else this.redraw();
  }

  resize() {
    const ratio = this.ratio = window.devicePixelRatio || 1;
    const { clientWidth, clientHeight } = this.stage;
    for (const canvas of [this.canvas, this.overlay]) {
      canvas.width = Math.max(1, Math.round(clientWidth * ratio));
      canvas.height = Math.max(1, Math.round(clientHeight * ratio));
    }
    if (this.panels) this.arrange(this.panels);
    if (this.fitted) this.fit(); else this.redraw();
  }

  show(width, height) { this.width = width; this.height = height; this.fit(); }

  least() {
    const margin = 28;
    return Math.min((this.wide - margin) / this.width, (this.tall - margin) / this.height);
  }

  fit() {
    this.scale = Math.min(MOST, Math.max(this.least(), 0.01));
    this.x = (this.wide - this.width * this.scale) / 2;
    this.y = (this.tall - this.height * this.scale) / 2;
    this.fitted = true;
    this.redraw();
  }

  zoom(factor, at) {
    const [px, py] = at ? [at[0] % this.wide, at[1] % this.tall] : [this.wide / 2, this.tall / 2];
    const scale = Math.min(MOST, Math.max(Math.min(this.least(), 1) / 2, this.scale * factor));
    this.x = px - ((px - this.x) * scale) / this.scale;
    this.y = py - ((py - this.y) * scale) / this.scale;
    this.scale = scale;
    this.fitted = false;
    this.redraw();
  }

  move(dx, dy) {
    this.x = Math.min(this.wide - 40, Math.max(40 - this.width * this.scale, this.x + dx));
    this.y = Math.min(this.tall - 40, Math.max(40 - this.height * this.scale, this.y + dy));
    this.fitted = false;
    this.redraw();
  }

  reveal(x, y) {
    const [px, py] = [this.x + x * this.scale, this.y + y * this.scale];
    const { clientWidth, clientHeight } = this.stage;
    this.move(
      px < 30 ? 30 - px : px > clientWidth - 30 ? clientWidth - 30 - px : 0,
      py < 30 ? 30 - py : py > clientHeight - 30 ? clientHeight - 30 - py : 0,
    );
  }

  toPicture(px, py) { return [(px - this.x) / this.scale, (py - this.y) / this.scale]; }

  redraw() { this.stale = true; this.repaint(); }

  repaint() {
    this.pending ||= requestAnimationFrame(() => {
      this.pending = 0;
      if (this.stale) this.drawPictures();
      this.stale = false;
      this.drawOverlay();
      this.frames++;
      this.stage.dispatchEvent(new Event("drawn"));
    });
  }

  drawPictures() {
    const context = this.canvas.getContext("2d");
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    if (!this.left) return;
    if (this.panels) { this.drawPanels(context); return; }
    const cut = this.right ? this.cut * this.stage.clientWidth * this.ratio : this.canvas.width;
    this.drawOne(context, this.left, 0, cut);
    if (this.right) this.drawOne(context, this.right, cut, this.canvas.width);
  }

  drawPanels(context) {
    this.panels.forEach((picture, index) => {
      const place = [(index % this.columns) * this.wide * this.ratio, Math.floor(index / this.columns) * this.tall * this.ratio];
      context.setTransform(1, 0, 0, 1, ...place);
      this.drawOne(context, picture, 0, this.wide * this.ratio, this.tall * this.ratio);
    });
    context.setTransform(1, 0, 0, 1, 0, 0);
  }

  drawOne(context, picture, from, to, height = this.canvas.height) {
    const scale = this.scale * this.ratio;
    const level = Math.max(0, Math.min(picture.levels.length - 1, Math.floor(Math.log2(1 / Math.max(scale, 1e-3)) + 0.01)));
    const bitmap = picture.levels[level];
    const factor = picture.width / bitmap.width;
    context.save();
    context.beginPath();
    context.rect(from, 0, to - from, height);
    context.clip();
    context.imageSmoothingEnabled = scale < 2;
    context.imageSmoothingQuality = "medium";
    // only what is seen, so that 800 % of a large picture costs no more than 100 %
    const left = Math.max(0, Math.floor(-this.x / this.scale)), top = Math.max(0, Math.floor(-this.y / this.scale));
    const right = Math.min(picture.width, Math.ceil((this.wide - this.x) / this.scale));
    const bottom = Math.min(picture.height, Math.ceil((this.tall - this.y) / this.scale));
    if (right > left && bottom > top) {
      context.drawImage(
        bitmap, left / factor, top / factor, (right - left) / factor, (bottom - top) / factor,
        (this.x + left * this.scale) * this.ratio, (this.y + top * this.scale) * this.ratio,
        (right - left) * scale, (bottom - top) * scale,
      );
    }
    context.restore();
  }

  drawOverlay() {
    const context = this.overlay.getContext("2d");
    const scale = this.scale * this.ratio;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.overlay.width, this.overlay.height);
    context.setTransform(scale, 0, 0, scale, this.x * this.ratio, this.y * this.ratio);
    if (this.mask && !this.right && !this.panels) {
      context.globalAlpha = this.faint ? Math.min(this.opacity, 0.12) : this.opacity;
      context.imageSmoothingEnabled = scale < 1;
      const [left, top] = this.toPicture(0, 0);
      const [right, bottom] = this.toPicture(this.stage.clientWidth, this.stage.clientHeight);
      for (const { canvas, x, y } of this.mask.tiles.values()) {
        if (x < right && y < bottom && x + TILE > left && y + TILE > top) context.drawImage(canvas, x, y);
      }
      context.globalAlpha = 1;
      this.drawCursor(context, scale);
    }
  }

  drawCursor(context, scale) {
    const cursor = this.cursor;
    if (!cursor) return;
    const outline = () => {
      context.strokeStyle = "rgb(0 0 0 / .7)"; context.lineWidth = 3 / scale; context.stroke();
      context.strokeStyle = "#fff"; context.lineWidth = 1.3 / scale; context.stroke();
    };
    context.beginPath();
    if (cursor.shape) cursor.shape(context);
    if (cursor.radius) context.arc(cursor.x, cursor.y, cursor.radius, 0, 7);
    if (!cursor.radius || cursor.cross) {
      const arm = 9 / scale;
      context.moveTo(cursor.x - arm, cursor.y); context.lineTo(cursor.x + arm, cursor.y);
      context.moveTo(cursor.x, cursor.y - arm); context.lineTo(cursor.x, cursor.y + arm);
    }
    outline();
  }
}
