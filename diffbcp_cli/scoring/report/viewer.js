// The viewer: two layers with a divider between them, a lens, and the controls.
const LENS = 128;
const state = { index: 0, left: null, right: null, cut: 0.5, x: 0.5, y: 0.5, zoom: 8, shown: null };

// ---- the stage ----
const layer = (key) => state.shown.layers.find((one) => one.key === key);

function draw(canvas, one) {
  const { width, height } = state.shown.entry;
  canvas.width = width;
  canvas.height = height;
  canvas.getContext("2d").putImageData(new ImageData(one.rgba, width, height), 0, 0);
}

function drawStage() {
  const left = layer(state.left), right = layer(state.right);
  draw($("under"), left);
  draw($("over"), right);
  $("tag-left").textContent = left.title;
  $("tag-right").textContent = right.title;
  $("choose-left").value = state.left;
  $("choose-right").value = state.right;
  const heat = [left, right].filter((one) => one.value);
  $("scale").hidden = heat.length === 0;
  if (heat.length) {
    const kinds = [...new Set(heat.map((one) => (one.kind === "std" ? "std" : "absolute error")))];
    $("scale-name").textContent = kinds.join(" and ");
    $("scale-top").textContent = state.shown.top.toFixed(3);
  }
  const presets = $("presets");
  for (const button of presets.children) {
    const on = button.dataset.left === state.left && button.dataset.right === state.right;
    button.setAttribute("aria-pressed", String(on));
    if (on) presets.scrollTo({ left: button.offsetLeft - (presets.clientWidth - button.offsetWidth) / 2 });
  }
  moveDivider(state.cut);
  moveLens(state.x, state.y);
}

function moveDivider(cut) {
  state.cut = clamp(cut, 0, 1);
  $("stage").style.setProperty("--cut", `${100 * state.cut}%`);
  $("divider").setAttribute("aria-valuenow", String(Math.round(100 * state.cut)));
  $("tag-left").style.visibility = state.cut < 0.12 ? "hidden" : "";
  $("tag-right").style.visibility = state.cut > 0.88 ? "hidden" : "";
}

// ---- the lens: the same small square of every layer ----
const lenses = new Map();

function buildLens() {
  lenses.clear();
  $("lens").replaceChildren();
  for (const one of state.shown.layers) {
    const figure = document.createElement("figure"), canvas = document.createElement("canvas");
    const caption = document.createElement("figcaption"), value = document.createElement("small");
    canvas.width = canvas.height = LENS;
    caption.textContent = caption.title = one.title;
    figure.append(canvas, caption, value);
    $("lens").append(figure);
    const source = new OffscreenCanvas(state.shown.entry.width, state.shown.entry.height);
    source.getContext("2d").putImageData(new ImageData(one.rgba, source.width, source.height), 0, 0);
    lenses.set(one.key, { canvas, value, source, one });
  }
}

function moveLens(x, y) {
  const { width, height, full } = state.shown.entry;
  state.x = clamp(x, 0, 1);
  state.y = clamp(y, 0, 1);
  const span = Math.min(LENS / state.zoom, width, height);
  const column = clamp(Math.floor(state.x * width), 0, width - 1), row = clamp(Math.floor(state.y * height), 0, height - 1);
  const left = clamp(column + 0.5 - span / 2, 0, width - span), top = clamp(row + 0.5 - span / 2, 0, height - span);
  const scale = LENS / span;
  $("lens").classList.toggle("many", lenses.size > 6);
  for (const { canvas, value, source, one } of lenses.values()) {
    const context = canvas.getContext("2d");
    context.imageSmoothingEnabled = false;
    context.drawImage(source, left, top, span, span, 0, 0, LENS, LENS);
    context.strokeStyle = "#fff";
    context.lineWidth = 1;
    context.shadowColor = "#000";
    context.shadowBlur = 2;
    context.strokeRect((column - left) * scale - 0.5, (row - top) * scale - 0.5, scale + 1, scale + 1);
    context.shadowBlur = 0;
    const at = row * width + column;
    value.textContent = one.value ? one.value[at].toFixed(3) : [0, 1, 2].map((c) => one.rgba[4 * at + c]).join(" ");
  }
  Object.assign($("frame").style, {
    left: `${(100 * left) / width}%`, top: `${(100 * top) / height}%`,
    width: `${(100 * span) / width}%`, height: `${(100 * span) / height}%`,
  });
  const shrunk = full[0] !== width ? `, shown at ${width} of ${full[0]} pixels` : "";
  $("position").textContent = `column ${Math.floor((column * full[0]) / width)}, row ${Math.floor((row * full[1]) / height)}${shrunk}`;
}

function setZoom(zoom) {
  state.zoom = clamp(zoom, 2, 24);
  $("zoom").value = state.zoom;
  $("zoom-value").textContent = `${state.zoom}×`;
  moveLens(state.x, state.y);
}

// ---- choosing a picture and what to compare ----
function choices() {
  const keys = state.shown.layers.map((one) => one.key), methods = state.shown.entry.layers;
  if (!methods.length) return [];
  const first = methods[0].method, result = `result-${first}`;
  const found = [];
  if (keys.includes("before")) found.push(["Before / after", "before", result]);
  found.push(["Truth / result", "truth", result]);
  if (methods.length > 1) found.push(["Method / method", result, `result-${methods[1].method}`]);
  if (keys.includes(`std-${first}`)) found.push(["Result / uncertainty", result, `std-${first}`]);
  found.push([keys.includes(`std-${first}`) ? "Uncertainty / error" : "Result / error", keys.includes(`std-${first}`) ? `std-${first}` : result, `error-${first}`]);
  return found;
}

function buildControls() {
  const found = choices();
  $("presets").replaceChildren(...found.map(([text, left, right]) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = text;
    Object.assign(button.dataset, { left, right });
    button.addEventListener("click", () => compare(left, right));
    return button;
  }));
  for (const id of ["choose-left", "choose-right"])
    $(id).replaceChildren(...state.shown.layers.map((one) => new Option(one.title, one.key)));
  const keys = state.shown.layers.map((one) => one.key);
  if (!keys.includes(state.left) || !keys.includes(state.right)) [, state.left, state.right] = found[0];
}

function compare(left, right) {
  [state.left, state.right] = [left, right];
  drawStage();
}

function buildNumbers(name) {
  const records = data.records[name] || {}, numbers = Object.keys(records);
  const table = $("numbers");
  table.replaceChildren();
  if (data.methods.length > 1) {
    const row = table.createTHead().insertRow();
    row.append(document.createElement("td"), ...numbers.map((number) => {
      const cell = document.createElement("th");
      cell.scope = "col";
      cell.textContent = methodName(Number(number));
      return cell;
    }));
  }
  const body = table.createTBody();
  data.columns.forEach((column, place) => {
    const row = body.insertRow(), head = document.createElement("th");
    head.scope = "row";
    head.textContent = column.label;
    row.append(head);
    for (const number of numbers) {
      const cell = row.insertCell();
      cell.className = "number";
      cell.textContent = records[number][place];
    }
  });
}

let latest = 0;
async function show(index, { scroll = false } = {}) {
  const ticket = ++latest;
  state.index = (index + data.images.length) % data.images.length;
  const found = await layersOf(state.index);
  if (ticket !== latest) return;
  state.shown = found;
  [state.x, state.y] = found.worst;
  const { name, width, height } = found.entry;
  $("name").textContent = name;
  $("stage").style.aspectRatio = `${width} / ${height}`;
  $("stage").style.maxWidth = `min(100%, ${(80 * width) / height}vh)`;
  buildControls();
  buildLens();
  buildNumbers(name);
  drawStage();
  [...$("strip").children].forEach((button, k) => {
    button.setAttribute("aria-current", String(k === state.index));
    if (k === state.index) $("strip").scrollTo({ left: button.offsetLeft - $("strip").clientWidth / 2 });
  });
  for (const one of document.querySelectorAll("[data-image]")) one.classList.toggle("on", one.dataset.image === name);
  if (scroll) $("pictures").scrollIntoView();
  $("viewer").dataset.ready = String(state.index);
}

const indexOf = new Map(data.images.map((entry, index) => [entry.name, index]));

function startViewer() {
  $("viewer").hidden = false;
  $("strip").append(...data.images.map((entry, index) => {
    const button = document.createElement("button"), image = new Image();
    button.type = "button";
    image.src = entry.thumbnail;
    image.alt = entry.name;
    image.width = image.height = 68;
    button.title = entry.name;
    button.append(image);
    button.addEventListener("click", () => show(index));
    return button;
  }));
  $("previous").addEventListener("click", () => show(state.index - 1));
  $("next").addEventListener("click", () => show(state.index + 1));
  $("choose-left").addEventListener("change", (event) => compare(event.target.value, state.right));
  $("choose-right").addEventListener("change", (event) => compare(state.left, event.target.value));
  $("zoom").addEventListener("input", (event) => setZoom(Number(event.target.value)));
  const ramp = $("ramp").getContext("2d"), strip = ramp.createImageData(256, 1);
  for (let i = 0; i < 256; i++) strip.data.set([HEAT[3 * i], HEAT[3 * i + 1], HEAT[3 * i + 2], 255], 4 * i);
  ramp.putImageData(strip, 0, 0);
  listenToStage();
  listenToKeys();
  show(0);
}

function listenToStage() {
  const stage = $("stage"), divider = $("divider");
  const at = (event) => {
    const box = stage.getBoundingClientRect();
    return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
  };
  let dragging = false, grip = 0;
  divider.addEventListener("pointerdown", (event) => {
    dragging = true;
    grip = state.cut - at(event)[0];
    divider.setPointerCapture(event.pointerId);
    event.preventDefault();
    divider.focus({ preventScroll: true });
  });
  divider.addEventListener("pointermove", (event) => { if (dragging) moveDivider(at(event)[0] + grip); });
  for (const end of ["pointerup", "pointercancel"]) divider.addEventListener(end, () => { dragging = false; });
  const lens = (event) => { if (!dragging && state.shown) moveLens(...at(event)); };
  stage.addEventListener("pointermove", lens);
  stage.addEventListener("pointerdown", lens);
}

function listenToKeys() {
  const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  $("divider").addEventListener("keydown", (event) => {
    const step = event.shiftKey ? 0.1 : 0.02;
    const moves = { ArrowLeft: state.cut - step, ArrowDown: state.cut - step, ArrowRight: state.cut + step, ArrowUp: state.cut + step, Home: 0, End: 1 };
    if (!(event.key in moves)) return;
    moveDivider(moves[event.key]);
    event.preventDefault();
    event.stopPropagation();
  });
  $("stage").addEventListener("keydown", (event) => {
    if (!(event.key in steps)) return;
    const { width, height } = state.shown.entry, size = event.shiftKey ? 10 : 1, [dx, dy] = steps[event.key];
    moveLens(state.x + (size * dx) / width, state.y + (size * dy) / height);
    event.preventDefault();
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    const key = event.key.toLowerCase();
    if (key === "n") show(state.index + 1);
    else if (key === "p") show(state.index - 1);
    else if (key === "+" || key === "=") setZoom(state.zoom + 1);
    else if (key === "-") setZoom(state.zoom - 1);
    else if (/^[1-9]$/.test(key)) $("presets").children[Number(key) - 1]?.click();
  });
}
