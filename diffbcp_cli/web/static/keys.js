// What the keyboard does.

import { $ } from "./app.js";

const TOOLS = { b: "brush", e: "eraser", s: "line", r: "rectangle", l: "lasso", w: "wand", h: "pan" };
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

export function keys(app) {
  addEventListener("keydown", (event) => {
    if ($("keys").open) return;
    const typing = event.target.closest("select, input[type=range], summary, [role=slider]");
    if (event.ctrlKey || event.metaKey) { control(app, event); return; }
    if (ARROWS[event.key] && !typing && onStage(event)) {
      event.preventDefault();
      app.tools.step(...ARROWS[event.key], { paint: event.shiftKey, far: event.altKey });
      return;
    }
    if (event.key === " " && onStage(event)) { event.preventDefault(); app.tools.held = true; return; }
    if (event.key === "Enter" && onStage(event)) { event.preventDefault(); app.tools.enter(); return; }
    if (event.altKey || (typing && typing.tagName === "SELECT")) return;
    plain(app, event);
  });
  addEventListener("keyup", (event) => { if (event.key === " ") app.tools.held = false; });
}

const onStage = (event) => event.target === $("stage") || event.target === document.body;

function control(app, event) {
  const key = event.key.toLowerCase();
  if (key === "z") { event.preventDefault(); app.undo(event.shiftKey ? "redo" : "undo"); }
  if (key === "y") { event.preventDefault(); app.undo("redo"); }
  if (key === "enter" && !$("restore").disabled) { event.preventDefault(); app.restore(); }
}

function plain(app, event) {
  const key = event.key.toLowerCase();
  const click = (id) => { if (!$(id).disabled) $(id).click(); };
  const acts = {
    "[": () => app.setBrush(Number($("size").value) - 4), "]": () => app.setBrush(Number($("size").value) + 4),
    "+": () => app.view.zoom(1.5), "=": () => app.view.zoom(1.5), "-": () => app.view.zoom(1 / 1.5),
    0: () => app.view.fit(), 1: () => app.view.zoom(1 / app.view.scale), escape: () => app.tools.abandon(),
    g: () => click(event.shiftKey ? "shrink" : "grow"), i: () => click("invert"), delete: () => click("clear"),
    f: () => click("find"), c: () => click("back"), n: () => app.next(1), p: () => app.next(-1), o: () => $("file").click(),
    "?": () => $("keys").showModal(),
  };
  const act = acts[key] ?? (TOOLS[key] && app.mode === "mask" ? () => app.chooseTool(TOOLS[key]) : null);
  if (!act) return;
  event.preventDefault();
  act();
}
