// Before and after: two pictures with a divider, the uncertainty, the error; several methods beside each other.

import * as api from "./api.js";
import { $, clock } from "./app.js";
import { pyramid, release } from "./view.js";

const MOST_PANELS = 9;

export class Compare {
  constructor(app) {
    this.app = app;
    this.beside = false; // all methods beside each other, in place of two with a divider
    this.layerName = "view";
    this.kept = new Map(); // pictures by run and layer
    for (const button of document.querySelectorAll("[data-layer]")) {
      button.onclick = () => app.attempt(() => this.layer(button.dataset.layer));
    }
    $("choose-left").onchange = () => app.attempt(() => this.draw());
    $("beside").onclick = () => app.attempt(async () => { this.beside = !this.beside; await this.show(this.run); });
    $("back").onclick = () => (app.mode === "compare" ? this.leave() : app.attempt(() => this.show(this.run)));
    $("copy").onclick = () => navigator.clipboard.writeText($("command").textContent).then(() => app.say("Copied."));
    $("again").onclick = () => app.attempt(async () => { await api.again(this.run); await app.load(); app.poll(); });
    this.wireDivider();
  }

  chosen() { return this.app.runs.find((run) => run.id === this.run); }
  finished() { return this.app.runsHere().filter((run) => run.record.seconds !== undefined); }

  async show(run) {
    this.run = run;
    if (!this.chosen()?.has_std && this.layerName === "std") this.layerName = "view";
    await this.draw();
    if (this.app.mode !== "compare") this.app.setMode("compare");
    this.app.update();
  }

  async layer(name) {
    this.layerName = name;
    await this.draw();
    if (this.app.mode !== "compare") this.app.setMode("compare");
    this.app.update();
  }

  leave() {
    this.hide();
    this.app.setMode("mask");
    this.app.update();
  }

  hide() {
    const { view, picture } = this.app;
    view.left = picture;
    view.right = null;
    view.faint = false;
    this.tags([]);
    for (const id of ["divider", "tag-left", "tag-right", "scale"]) $(id).hidden = true;
    view.arrange(null);
  }

  async fetch(run, what) {
    const key = `${run}/${what}`;
    if (!this.kept.has(key)) {
      const found = await api.picture(api.runAddress(run, what));
      const made = Object.assign(await pyramid(found.blob), { top: found.top });
      for (const [old, picture] of [...this.kept].slice(0, 1 - MOST_PANELS)) {
        const { left, right, panels } = this.app.view;
        if (picture !== left && picture !== right && !panels?.includes(picture)) { release(picture); this.kept.delete(old); }
      }
      this.kept.set(key, made);
    }
    return this.kept.get(key);
  }

  async draw() {
    const { view, picture } = this.app, run = this.chosen(), other = $("choose-left").value;
    const turn = this.turn = {}; // of several that are asked for at once the last is shown
    if (!run) return;
    if (this.beside && this.finished().length > 1) { await this.drawBeside(turn); return; }
    const left = other && other !== run.id && this.app.runsHere().some((one) => one.id === other) ? await this.fetch(other, "view") : picture;
    const right = await this.fetch(run.id, this.layerName);
    if (turn !== this.turn) return;
    Object.assign(view, { left, right });
    this.tags([]);
    view.arrange(null);
    const name = { view: run.options.method ?? "diffbcp", std: "Uncertainty", error: "Error" }[this.layerName];
    $("tag-left").textContent = left === picture ? "Before" : $("choose-left").selectedOptions[0].textContent;
    $("tag-right").textContent = this.layerName === "view" ? `After: ${name}` : name;
    for (const id of ["divider", "tag-left", "tag-right"]) $(id).hidden = false;
    $("scale").hidden = this.layerName === "view";
    $("scale-top").textContent = right.top ? `${right.top} or more` : "";
    this.cut(view.cut);
  }

  // The photograph, and what each method made of it.
  async drawBeside(turn) {
    const { view, picture } = this.app, what = this.layerName;
    const runs = this.finished().filter((run) => what !== "std" || run.has_std).slice(1 - MOST_PANELS);
    const panels = [picture];
    for (const run of runs) panels.push(await this.fetch(run.id, what));
    if (turn !== this.turn) return;
    Object.assign(view, { left: picture, right: null });
    for (const id of ["divider", "tag-left", "tag-right"]) $(id).hidden = true;
    $("scale").hidden = true; // each map has a scale of its own: it is in its label
    view.arrange(panels);
    this.tags(["Before", ...runs.map((run, at) => label(run) + (panels[at + 1].top ? `, white: ${panels[at + 1].top} or more` : ""))]);
  }

  tags(names) {
    const { columns, rows } = this.app.view;
    $("tags").replaceChildren(...names.map((name, at) => {
      const tag = Object.assign(document.createElement("p"), { className: "tag", textContent: name });
      tag.style.left = `calc(${(100 * (at % columns)) / columns}% + 12px)`;
      tag.style.top = `calc(${(100 * Math.floor(at / columns)) / rows}% + 12px)`;
      tag.style.maxWidth = `calc(${100 / columns}% - 24px)`;
      return tag;
    }));
  }

  // The latest draw of a run, while the mask can still be seen.
  async preview(run) {
    const found = await api.picture(api.runAddress(run.id, "preview"));
    const { view, picture } = this.app;
    if (!found || this.app.mode !== "mask" || this.app.current !== run.item || !this.app.activeRun()) return;
    const made = await pyramid(found.blob);
    const old = view.left;
    view.left = made;
    view.faint = true;
    view.redraw();
    if (old !== picture) release(old);
  }

  list() {
    const runs = this.finished(), chosen = this.chosen(), all = this.app.runsHere();
    $("results").hidden = !all.some((run) => !["queued", "running"].includes(run.status));
    if (!this.app.activeRun() && this.app.mode === "mask" && this.app.view.left !== this.app.picture) this.hide();
    const mark = JSON.stringify([this.run, this.layerName, this.beside, this.app.mode, this.app.item()?.truth, all.map((run) => [run.id, run.status])]);
    if (mark === this.listed) return;
    this.listed = mark;
    $("runs").replaceChildren(...all.filter((run) => !["queued", "running"].includes(run.status)).map((run) => {
      const entry = document.createElement("li"), button = document.createElement("button"), about = document.createElement("small");
      about.textContent = run.status === "failed" ? "failed" : run.status === "interrupted" ? "stopped" : clock(run.record.seconds);
      button.append(label(run), about);
      button.title = run.message;
      button.setAttribute("aria-current", run.id === this.run && this.app.mode === "compare");
      button.onclick = () => (run.record.seconds !== undefined ? this.app.attempt(() => this.show(run.id)) : this.pick(run));
      entry.className = run.status;
      entry.append(button);
      return entry;
    }));
    const before = $("choose-left").value;
    $("choose-left").replaceChildren(new Option("The photograph", ""), ...runs.map((run) => new Option(`${label(run)} (${run.id})`, run.id)));
    $("choose-left").value = runs.some((run) => run.id === before) ? before : "";
    for (const button of document.querySelectorAll("[data-layer]")) {
      button.setAttribute("aria-checked", button.dataset.layer === this.layerName);
      button.disabled = !chosen || (button.dataset.layer === "std" && !chosen.has_std) || (button.dataset.layer === "error" && !this.app.item()?.truth);
    }
    $("beside").hidden = runs.length < 2;
    $("beside").setAttribute("aria-pressed", this.beside);
    $("choose-left").closest("label").hidden = this.beside && runs.length > 1;
    $("back").textContent = this.app.mode === "compare" ? "Edit the mask" : "Compare";
    $("back").disabled = this.app.mode !== "compare" && chosen?.record.seconds === undefined;
    $("again").hidden = !chosen || !["interrupted", "failed"].includes(chosen.status);
    $("command").textContent = chosen?.command ?? "";
    if (chosen?.record.seconds !== undefined) $("download").href = api.runAddress(chosen.id, "file");
    $("download").hidden = chosen?.record.seconds === undefined;
  }

  pick(run) {
    this.run = run.id;
    this.app.fail(new api.Refused(run.message, run.hint));
    this.app.update();
  }

  wireDivider() {
    const divider = $("divider"), stage = $("stage");
    const follow = (event) => {
      const box = stage.getBoundingClientRect();
      this.cut((event.clientX - box.left) / box.width);
    };
    divider.onpointerdown = (event) => { event.stopPropagation(); divider.setPointerCapture(event.pointerId); divider.focus(); };
    divider.onpointermove = (event) => { event.stopPropagation(); if (divider.hasPointerCapture(event.pointerId)) follow(event); };
    divider.onkeydown = (event) => {
      const step = { ArrowLeft: -0.02, ArrowRight: 0.02, ArrowDown: -0.02, ArrowUp: 0.02, PageDown: -0.1, PageUp: 0.1, Home: -1, End: 1 }[event.key];
      if (step === undefined) return;
      event.preventDefault();
      event.stopPropagation();
      this.cut(this.app.view.cut + step);
    };
  }

  cut(value) {
    const { view } = this.app;
    view.cut = Math.min(1, Math.max(0, value));
    $("divider").style.left = `${100 * view.cut}%`;
    $("divider").setAttribute("aria-valuenow", Math.round(100 * view.cut));
    $("divider").setAttribute("aria-valuetext", `${Math.round(100 * view.cut)} % before`);
    view.redraw();
  }
}

function label(run) {
  return `${run.options.method ?? "diffbcp"}${run.options.preset ? `, ${run.options.preset}` : ""}`;
}
