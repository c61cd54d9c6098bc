// The page: what is open, what is shown, and which button does what.

import * as api from "./api.js";
import { Compare } from "./compare.js";
import { keys } from "./keys.js";
import { Mask } from "./mask.js";
import { Tools } from "./tools.js";
import { View, pyramid, release } from "./view.js";

export const $ = (id) => document.getElementById(id);
const POLL = { busy: 600, idle: 4000 };
const SAVE_AFTER = 700; // milliseconds after the last stroke

class App {
  constructor() {
    this.mode = "empty"; // empty, mask, compare
    this.items = [];
    this.runs = [];
    this.masks = new Map(); // by photograph: each keeps its own history
    this.versions = new Map(); // of the masks, as the server counted when this page last had them
    this.view = new View($("stage"), $("picture"), $("overlay"));
    this.tools = new Tools($("stage"), this.view, this);
    this.compare = new Compare(this);
    $("stage").addEventListener("drawn", () => { $("zoom").value = `${Math.round(this.view.scale * 100)} %`; });
    this.wire();
    keys(this);
    this.poll();
  }

  item() { return this.items.find((item) => item.id === this.current); }
  runsHere() { return this.runs.filter((run) => run.item === this.current); }
  activeRun() { return this.runsHere().find((run) => ["queued", "running"].includes(run.status)); }

  setMode(mode) {
    this.mode = document.body.dataset.mode = mode;
    this.tools.abandon();
    for (const button of $("tools").querySelectorAll("button")) button.disabled = mode !== "mask";
    $("stage").setAttribute("aria-label", this.item() ? `${this.item().name}, ${mode === "mask" ? "painting the mask" : "comparing"}` : "No photograph is open");
  }

  say(text) { $("said").textContent = text; }

  fail(error) {
    $("toast-text").textContent = error.message;
    $("toast-hint").textContent = error.hint ?? "";
    $("toast").hidden = false;
    if (!(error instanceof api.Refused)) console.error(error);
  }

  // Do something that takes a while; whatever goes wrong is said on the page.
  async attempt(work, button) {
    if (button) { button.disabled = true; button.setAttribute("aria-busy", "true"); }
    try { return await work(); } catch (error) { this.fail(error); return null; } finally {
      if (button) { button.disabled = false; button.removeAttribute("aria-busy"); }
      this.update();
    }
  }

  async poll() {
    clearTimeout(this.timer);
    try { await this.load(); } catch (error) { if (!this.lost) this.fail(error); this.lost = true; }
    const busy = this.runs.some((run) => ["queued", "running"].includes(run.status));
    this.timer = setTimeout(() => this.poll(), busy ? POLL.busy : POLL.idle);
  }

  async load() {
    const state = await api.state();
    if (this.lost) { this.lost = false; $("toast").hidden = true; }
    // a short run may end before this page has ever seen it run; only the first look takes the finished ones as old
    const busy = (run) => ["queued", "running"].includes(run.status), before = new Map(this.runs.map((run) => [run.id, run]));
    const ended = state.runs.filter((run) => !busy(run) && (before.has(run.id) ? busy(before.get(run.id)) : this.looked));
    this.looked = true;
    Object.assign(this, { items: state.items, runs: state.runs });
    $("folder").textContent = `Masks and results: ${state.folder}`;
    if (!$("method").options.length) this.listMethods(state.methods);
    if (!this.item()) { this.current = null; if (this.items.length) await this.choose(this.items[0].id); else this.setMode("empty"); }
    for (const run of ended) await this.ended(run);
    await this.catchUp();
    this.update();
  }

  // Another tab has painted on the same photograph: what it made is taken over, unless something is on its way from here.
  async catchUp() {
    const item = this.item(), id = this.current;
    const idle = () => !this.unsaved && !this.sending && !this.tools.busy && this.current === id && this.mode === "mask";
    if (!item || !this.mask || item.mask_version <= this.versions.get(id) || !idle()) return;
    const stored = await api.picture(`api/photos/${id}/mask`);
    if (!idle()) return;
    if (stored) await this.take(stored.blob, { replace: true, label: "another tab" }); else this.mask.clear();
    this.versions.set(id, item.mask_version);
    this.counted();
    this.view.repaint();
  }

  async ended(run) {
    if (run.status === "failed") this.fail(new api.Refused(`${this.items.find((item) => item.id === run.item)?.name}: ${run.message}`, run.hint));
    if (run.item !== this.current || run.status === "failed") return;
    this.say(run.status === "done" ? "The restoration is done." : run.message);
    if (run.record.seconds !== undefined) await this.attempt(() => this.compare.show(run.id));
  }

  listMethods(methods) {
    for (const { name, help } of methods) {
      $("method").add(Object.assign(new Option(name, name), { title: help }));
    }
    const tell = () => {
      const method = methods.find((one) => one.name === $("method").value);
      $("method-help").textContent = method.help;
      $("fast").closest("label").hidden = !method.fast; // a method with steps of its own number has no fewer of them
    };
    $("method").onchange = tell;
    tell();
  }

  async choose(id) {
    await this.flush();
    this.current = id;
    const item = this.item();
    const picture = await pyramid((await api.picture(api.viewAddress(id))).blob);
    if (this.current !== id) { release(picture); return; }
    release(this.picture);
    this.picture = this.view.left = picture;
    this.view.right = null;
    if (!this.masks.has(id)) {
      const mask = new Mask(item.width, item.height);
      this.masks.set(id, mask);
      this.versions.set(id, item.mask_version);
      const stored = await api.picture(`api/photos/${id}/mask`);
      if (stored) await this.take(stored.blob, { replace: true, label: "load" });
      mask.past = [];
    }
    this.mask = this.view.mask = this.masks.get(id);
    $("name").textContent = `${item.name} · ${item.width} × ${item.height}`;
    document.title = `${item.name} · diffbcp`;
    $("found").textContent = "";
    this.compare.turn = null;
    this.compare.hide();
    this.view.show(item.width, item.height);
    this.setBrush($("size").value);
    this.setMode("mask");
    this.counted();
    this.update();
  }

  async take(blob, how) {
    const bitmap = await createImageBitmap(blob);
    const changed = this.masks.get(this.current).take(bitmap, how);
    bitmap.close();
    return changed;
  }

  painted() {
    this.counted();
    this.view.repaint();
    this.unsaved = this.current;
    clearTimeout(this.saving);
    this.saving = setTimeout(() => this.attempt(() => this.flush()), SAVE_AFTER);
    this.update();
  }

  counted() {
    this.share = this.mask.share();
    $("share").value = this.share ? `${(100 * this.share).toFixed(this.share < 0.01 ? 2 : 1)} %` : "";
  }

  // Send the mask, if it has changed since it was sent; one after the other, and none is on its way at the end.
  async flush() {
    clearTimeout(this.saving);
    while (this.sending) await this.sending.catch(() => {});
    if (!this.unsaved) return;
    this.sending = this.send(this.unsaved);
    try { await this.sending; } finally { this.sending = null; }
  }

  async send(id) {
    this.unsaved = null;
    try {
      const body = await this.masks.get(id).png();
      this.stored(await api.putMask(id, body, this.versions.get(id)));
    } catch (error) {
      this.unsaved ??= id;
      if (error.status !== 409) throw error;
      await this.join(id);
      await this.send(id);
    }
  }

  stored(item) {
    this.versions.set(item.id, item.mask_version);
    Object.assign(this.items.find((one) => one.id === item.id) ?? {}, item);
  }

  // Two tabs painted at once: what the other one marked is added to what is marked here.
  async join(id) {
    const item = (await api.state()).items.find((one) => one.id === id);
    const theirs = await api.picture(`api/photos/${id}/mask`);
    if (theirs) {
      const bitmap = await createImageBitmap(theirs.blob);
      this.masks.get(id).take(bitmap, { replace: false, label: "another tab" });
      bitmap.close();
    }
    this.versions.set(id, item.mask_version);
    this.say("Another tab painted on this photograph too: its marks were added.");
    if (id === this.current) { this.counted(); this.view.repaint(); }
  }

  async add(files) {
    let first = null;
    for (const file of files) {
      await this.attempt(async () => { const item = await api.addPhoto(file); first ??= item; });
    }
    if (!first) return;
    await this.load();
    await this.attempt(() => this.choose(first.id));
  }

  find() {
    return this.attempt(async () => {
      const sensitivity = 4 ** Number($("sensitivity").value);
      const { blob, found } = await api.changed(this.current, "detect", { sensitivity });
      if (this.mask.past.at(-1)?.label === "detect") { this.mask.undo(); this.mask.future = []; }
      await this.take(blob, { replace: false, label: "detect" });
      const parts = Object.entries(found).filter(([, count]) => count).map(([kind, count]) => `${count} × ${kind}`);
      $("found").textContent = parts.length ? `Found ${parts.join(", ")}. Undo takes it back; paint to correct it.` : "Nothing found. Try a higher sensitivity, or paint.";
      this.say($("found").textContent);
      this.painted();
    }, $("find"));
  }

  resize(pixels) {
    return this.attempt(async () => {
      await this.flush();
      const { blob } = await api.changed(this.current, "resize", { pixels });
      await this.take(blob, { replace: true, label: "resize" });
      this.painted();
    });
  }

  restore(id = this.current) {
    return this.attempt(async () => {
      await this.flush();
      const options = { method: $("method").value, observed: $("keep").checked ? "keep" : "posterior" };
      if ($("fast").checked && !$("fast").closest("label").hidden) options.preset = "fast";
      await api.restore(id, options);
      await this.load();
      this.poll();
    }, $("restore"));
  }

  async restoreAll() {
    for (const item of this.items) {
      if (!this.runs.some((run) => run.item === item.id && ["queued", "running"].includes(run.status))) await this.restore(item.id);
    }
  }

  undo(way) {
    this.tools.abandon();
    if (this.mask?.[way]()) { this.say(way); this.painted(); }
  }

  setBrush(value) {
    $("size").value = value;
    const most = Math.max(24, (this.item() ? Math.max(this.item().width, this.item().height) : 800) / 10);
    this.tools.radius = 0.5 + most * (Number($("size").value) / 100) ** 2.2;
    $("size-value").value = `${Math.round(2 * this.tools.radius)} px`;
    this.tools.refresh();
  }

  chooseTool(tool) {
    this.tools.choose(tool);
    for (const button of $("tools").querySelectorAll("[data-tool]")) button.setAttribute("aria-pressed", button.dataset.tool === tool);
    for (const field of document.querySelectorAll("[data-for]")) field.hidden = !field.dataset.for.split(" ").includes(tool);
  }

  async next(by) {
    if (this.items.length < 2) return;
    const at = this.items.findIndex((item) => item.id === this.current);
    await this.attempt(() => this.choose(this.items[(at + by + this.items.length) % this.items.length].id));
  }

  update() {
    const item = this.item(), run = this.activeRun();
    const masking = this.mode === "mask";
    for (const id of ["find", "grow", "shrink", "invert", "clear", "load-mask", "sensitivity"]) $(id).disabled = !masking;
    for (const id of ["restore", "save-mask"]) $(id).disabled = !item;
    $("undo").disabled = !masking || !this.mask?.past.length;
    $("redo").disabled = !masking || !this.mask?.future.length;
    $("save-mask").disabled ||= !this.share;
    $("restore").textContent = this.share ? "Restore" : "Remove noise only";
    $("restore").disabled ||= Boolean(run);
    $("keep").closest("label").hidden = !this.share;
    $("all-row").hidden = this.items.length < 2;
    this.compare.list();
    this.showProgress(run);
    this.showStrip();
  }

  showProgress(run) {
    $("progress").hidden = !run;
    if (!run) return;
    const live = run.live ?? {};
    const before = this.runs.filter((one) => one.status === "running" && one.id !== run.id).length;
    $("stage-name").textContent = run.status === "queued" ? (before ? "Waiting for another photograph" : "Waiting") : `${live.stage}`;
    if (live.total) { $("bar").value = live.done / live.total; } else $("bar").removeAttribute("value");
    $("left").value = live.left ? `${clock(live.left)} left` : live.seconds ? clock(live.seconds) : "";
    const noise = live.noise ? ` · noise ${live.noise.toFixed(4)}` : "";
    $("numbers").textContent = live.total > 1 ? `${Math.floor(live.done)} of ${Math.round(live.total)}${noise}` : (live.notes?.at(-1) ?? "");
    if (live.preview && live.preview !== this.previewed && this.mode === "mask" && run.item === this.current) {
      this.previewed = live.preview;
      this.compare.preview(run).catch(() => {});
    }
  }

  showStrip() {
    $("strip").hidden = this.items.length < 2;
    if (this.items.length < 2) return;
    const mark = JSON.stringify([this.current, this.items.map((item) => [item.id, item.share > 0, this.stateOf(item)])]);
    if (mark === this.stripped) return;
    this.stripped = mark;
    $("strip").replaceChildren(...this.items.map((item) => {
      const button = document.createElement("button");
      const image = Object.assign(new Image(), { src: api.thumbAddress(item.id), alt: "", loading: "lazy" });
      const state = Object.assign(document.createElement("span"), { className: "state", textContent: this.stateOf(item) });
      button.append(image, ...(state.textContent ? [state] : []));
      button.setAttribute("aria-label", `${item.name}${state.textContent ? `, ${state.textContent}` : ""}`);
      button.setAttribute("aria-current", item.id === this.current);
      button.title = item.name;
      button.onclick = () => this.attempt(() => this.choose(item.id));
      const entry = document.createElement("li");
      entry.append(button);
      return entry;
    }));
  }

  stateOf(item) {
    const run = this.runs.findLast((one) => one.item === item.id);
    return run ? { interrupted: "stopped" }[run.status] ?? run.status : item.share > 0 ? "marked" : "";
  }

  wire() {
    const files = (id, use) => { $(id).onchange = () => { const chosen = [...$(id).files]; $(id).value = ""; if (chosen.length) use(chosen); }; };
    for (const id of ["open", "choose"]) $(id).onclick = () => $("file").click();
    files("file", (chosen) => this.add(chosen));
    files("mask-file", ([file]) => this.attempt(async () => {
      this.stored(await api.putMask(this.current, file));
      await this.take((await api.picture(`api/photos/${this.current}/mask`)).blob, { replace: true, label: "load" });
      this.painted();
    }));
    files("truth-file", ([file]) => this.attempt(async () => { await api.putTruth(this.current, file); await this.load(); await this.compare.layer("error"); }));
    for (const button of $("tools").querySelectorAll("[data-tool]")) button.onclick = () => this.chooseTool(button.dataset.tool);
    this.chooseTool("brush");
    const clicks = {
      undo: () => this.undo("undo"), redo: () => this.undo("redo"), find: () => this.find(),
      grow: () => this.resize(1), shrink: () => this.resize(-1), invert: () => this.mask.invert() && this.painted(),
      clear: () => this.mask.clear() && this.painted(), restore: () => this.restore(), all: () => this.restoreAll(),
      "load-mask": () => $("mask-file").click(), truth: () => $("truth-file").click(),
      "save-mask": () => this.attempt(() => this.saveMask()),
      cancel: () => this.attempt(() => api.cancel(this.activeRun().id)),
      "zoom-in": () => this.view.zoom(1.5), "zoom-out": () => this.view.zoom(1 / 1.5), "zoom-fit": () => this.view.fit(),
      theme: () => this.turnTheme(), help: () => $("keys").showModal(), "toast-close": () => { $("toast").hidden = true; },
    };
    for (const [id, act] of Object.entries(clicks)) $(id).onclick = act;
    $("size").oninput = () => this.setBrush($("size").value);
    $("tolerance").oninput = () => { $("tolerance-value").value = $("tolerance").value; this.tools.tolerance = Number($("tolerance").value); };
    $("opacity").oninput = () => { $("opacity-value").value = `${$("opacity").value} %`; this.view.opacity = $("opacity").value / 100; this.view.repaint(); };
    $("sensitivity").oninput = () => { $("sensitivity-value").value = (4 ** $("sensitivity").value).toFixed(1); };
    $("sensitivity").onchange = () => { if (this.mask?.past.at(-1)?.label === "detect") this.find(); };
    addEventListener("dragover", (event) => { event.preventDefault(); document.body.classList.add("dragging"); });
    addEventListener("dragleave", (event) => { if (!event.relatedTarget) document.body.classList.remove("dragging"); });
    addEventListener("drop", (event) => {
      event.preventDefault();
      document.body.classList.remove("dragging");
      if (event.dataTransfer.files.length) this.add([...event.dataTransfer.files]);
    });
    addEventListener("pagehide", () => { if (this.unsaved) this.flush().catch(() => {}); });
    const theme = localStorage.getItem("theme");
    if (theme) document.documentElement.dataset.theme = theme;
  }

  async saveMask() {
    const blob = await this.mask.png();
    const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: `${this.item().stem}.mask.png` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 5000);
  }

  turnTheme() {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const now = document.documentElement.dataset.theme ?? (dark ? "dark" : "light");
    document.documentElement.dataset.theme = now === "dark" ? "light" : "dark";
    localStorage.setItem("theme", document.documentElement.dataset.theme);
  }
}

export function clock(seconds) {
  const whole = Math.round(seconds);
  return whole < 60 ? `${whole} s` : `${Math.floor(whole / 60)} min ${whole % 60} s`;
}

window.diffbcp = new App();
