// Painting: what the pointer and the keys do to the mask, by tool.

import { flood } from "./wand.js";

export class Tools {
  constructor(stage, view, app) {
    Object.assign(this, { stage, view, app, tool: "brush", radius: 12, tolerance: 24, spot: null, points: null });
    this.pointers = new Map();
    stage.addEventListener("pointerdown", (event) => this.down(event));
    stage.addEventListener("pointermove", (event) => this.moved(event));
    for (const name of ["pointerup", "pointercancel"]) stage.addEventListener(name, (event) => this.up(event));
    stage.addEventListener("pointerleave", () => { if (!this.busy && !this.keyboard) this.setCursor(null); });
    stage.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    stage.addEventListener("dblclick", () => this.finish());
  }

  choose(tool) {
    this.abandon();
    this.tool = tool;
    this.refresh();
  }

  painting() { return this.app.mask && this.app.mode === "mask"; }

  place(event) {
    const box = this.stage.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  down(event) {
    if (event.target.closest("button, .divider")) return;
    this.stage.focus({ preventScroll: true });
    this.stage.setPointerCapture(event.pointerId);
    const at = this.place(event);
    this.pointers.set(event.pointerId, at);
    this.keyboard = false;
    if (this.pointers.size === 2) { this.abandon(); this.pinch = this.spread(); return; }
    const moves = event.button === 1 || this.held || this.tool === "pan" || !this.painting();
    if (moves) { this.grip = at; this.stage.classList.add("panning"); return; }
    if (event.button !== 0) return;
    this.start(this.view.toPicture(...at), event.pointerType === "pen" ? event.pressure : 1);
  }

  moved(event) {
    const at = this.place(event);
    if (this.pointers.has(event.pointerId)) this.pointers.set(event.pointerId, at);
    if (this.pinch) { this.pinched(); return; }
    if (this.grip) {
      this.view.move(at[0] - this.grip[0], at[1] - this.grip[1]);
      this.grip = at;
      return;
    }
    const events = event.getCoalescedEvents?.() ?? [];
    for (const one of events.length ? events : [event]) {
      if (this.busy) this.follow(this.view.toPicture(...this.place(one)), one.pointerType === "pen" ? one.pressure : 1);
    }
    if (event.pointerType !== "touch") this.setCursor(this.view.toPicture(...at));
  }

  up(event) {
    this.pointers.delete(event.pointerId);
    if (this.pinch) { if (this.pointers.size < 2) this.pinch = null; return; }
    this.grip = null;
    this.stage.classList.remove("panning");
    if (this.busy) this.release();
  }

  wheel(event) {
    event.preventDefault();
    if (event.shiftKey) { this.view.move(-event.deltaY - event.deltaX, 0); return; }
    this.view.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0016)), this.place(event));
  }

  spread() {
    const [[ax, ay], [bx, by]] = [...this.pointers.values()];
    return { wide: Math.hypot(ax - bx, ay - by), x: (ax + bx) / 2, y: (ay + by) / 2 };
  }

  pinched() {
    const now = this.spread();
    this.view.move(now.x - this.pinch.x, now.y - this.pinch.y);
    this.view.zoom(now.wide / Math.max(1, this.pinch.wide), [now.x, now.y]);
    this.pinch = now;
  }

  // A stroke or a shape, from the pointer or the keys.
  start(at, pressure = 1) {
    this.busy = true;
    if (this.tool === "brush" || this.tool === "eraser") {
      this.app.mask.begin(this.tool);
      this.last = at;
      this.stroke(at, pressure);
    } else {
      this.points = [at];
    }
  }

  follow(at, pressure = 1) {
    if (this.tool === "brush" || this.tool === "eraser") this.stroke(at, pressure);
    else if (this.tool === "lasso") this.points.push(at);
    else if (this.points) this.points[1] = at;
    this.refresh();
  }

  release() {
    this.busy = false;
    if (this.tool === "brush" || this.tool === "eraser") { this.done(this.app.mask.end()); return; }
    if (this.tool === "wand") { const [at] = this.points; this.points = null; this.wand(at); return; }
    const [first, last] = [this.points?.[0], this.points?.at(-1)];
    const moved = first && last && Math.hypot(first[0] - last[0], first[1] - last[1]) * this.view.scale > 3;
    if (moved) this.finish(); else this.busy = Boolean(this.points) && this.tool !== "lasso";
    if (this.busy) { this.busy = false; this.app.say("Now the other end."); }
  }

  stroke(to, pressure = 1) {
    const radius = this.radius * (pressure < 1 ? 0.3 + 0.7 * pressure : 1);
    const from = this.last;
    const box = around([from, to], radius + 1);
    this.app.mask.draw(box, (context) => {
      context.lineWidth = 2 * radius;
      context.moveTo(...from);
      context.lineTo(to[0] + 1e-3, to[1]);
      context.stroke();
    }, this.tool === "eraser");
    this.last = to;
    this.refresh();
  }

  shape(points = this.points) {
    if (!points || points.length < 2) return null;
    const [[ax, ay], [bx, by]] = [points[0], points.at(-1)];
    if (this.tool === "rectangle") {
      return (context) => context.rect(Math.min(ax, bx), Math.min(ay, by), Math.abs(ax - bx), Math.abs(ay - by));
    }
    if (this.tool === "line") return (context) => { context.moveTo(ax, ay); context.lineTo(bx, by); };
    return (context) => {
      context.moveTo(ax, ay);
      for (const point of points.slice(1)) context.lineTo(...point);
      context.closePath();
    };
  }

  finish() {
    const shape = this.shape();
    if (!shape) return;
    const { mask } = this.app, wide = this.tool === "line" ? Math.max(1, this.radius / 2) : 0;
    mask.begin(this.tool);
    mask.draw(around(this.points, wide + 1), (context) => {
      shape(context);
      context.lineWidth = 2 * wide;
      if (wide) context.stroke(); else context.fill();
    });
    this.points = null;
    this.busy = false;
    this.done(mask.end());
  }

  async wand(at) {
    const spans = await flood(this.app.picture, at, this.tolerance);
    if (!spans) return;
    const { mask } = this.app;
    mask.begin("wand");
    mask.draw(spans.box, (context) => {
      for (const [x, y, wide, tall] of spans.rows) context.rect(x, y, wide, tall);
      context.fill();
    });
    this.done(mask.end());
  }

  abandon() {
    if (this.busy && this.app.mask?.before) { this.app.mask.end(); this.app.mask.undo(); this.app.mask.future.pop(); }
    this.points = null;
    this.busy = false;
    this.refresh();
  }

  done(changed) {
    this.refresh();
    if (changed) this.app.painted();
  }

  // The keyboard's cross.
  step(dx, dy, { paint, far }) {
    const { view } = this, picture = this.app.picture;
    if (!picture) return;
    if (!this.painting()) { view.move(-dx * 60, -dy * 60); return; }
    const size = far ? 12 * this.radius : Math.max(1, this.radius);
    const from = this.spot ?? view.toPicture(this.stage.clientWidth / 2, this.stage.clientHeight / 2);
    const clamp = (value, most) => Math.min(most, Math.max(0, value));
    const to = [clamp(from[0] + dx * size, picture.width), clamp(from[1] + dy * size, picture.height)];
    this.keyboard = true;
    if (paint && (this.tool === "brush" || this.tool === "eraser")) {
      this.app.mask.begin(this.tool);
      this.last = from;
      this.stroke(to);
      this.done(this.app.mask.end());
    } else if (this.points && this.tool !== "lasso") this.points[1] = to;
    this.setCursor(to);
    view.reveal(...to);
    this.app.say(`${Math.round(to[0])}, ${Math.round(to[1])}`);
  }

  enter() {
    if (!this.painting()) return;
    const at = this.spot ?? this.view.toPicture(this.stage.clientWidth / 2, this.stage.clientHeight / 2);
    this.keyboard = true;
    if (this.tool === "brush" || this.tool === "eraser") { this.start(at); this.release(); }
    else if (this.tool === "wand") this.wand(at);
    else if (this.tool === "lasso") {
      this.points = [...(this.points ?? []), at];
      const [first] = this.points;
      const back = Math.hypot(first[0] - at[0], first[1] - at[1]) < this.radius;
      if (this.points.length > 3 && back) this.finish();
    } else if (this.points) { this.points[1] = at; this.finish(); }
    else { this.points = [at]; this.app.say("Now the other end."); }
    this.setCursor(at);
  }

  setCursor(at) { this.spot = at ?? this.spot; this.hover = at; this.refresh(); }

  refresh() {
    const at = this.hover;
    const round = ["brush", "eraser"].includes(this.tool) ? this.radius : this.tool === "line" ? this.radius / 2 : 0;
    const shape = this.points && this.points.length > 1 ? this.shape() : null;
    this.view.cursor = at && this.painting() && this.tool !== "pan"
      ? { x: at[0], y: at[1], radius: round, cross: this.keyboard, shape }
      : shape ? { x: -99, y: -99, radius: 0.001, shape } : null;
    this.view.repaint();
  }
}

function around(points, margin) {
  const [xs, ys] = [points.map((point) => point[0]), points.map((point) => point[1])];
  const box = { left: xs[0], right: xs[0], top: ys[0], bottom: ys[0] };
  for (const x of xs) { box.left = Math.min(box.left, x); box.right = Math.max(box.right, x); }
  for (const y of ys) { box.top = Math.min(box.top, y); box.bottom = Math.max(box.bottom, y); }
  return { left: box.left - margin, top: box.top - margin, right: box.right + margin, bottom: box.bottom + margin };
}
