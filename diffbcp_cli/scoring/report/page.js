"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const clamp = (x, low, high) => Math.min(high, Math.max(low, x));
  const LENS = 128;

  // ---- light and dark ----
  const root = document.documentElement;
  $("theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });

  // ---- heat: dark blue over magenta and orange to pale yellow, in even steps of lightness ----
  const STOPS = [[10, 9, 40], [66, 22, 104], [147, 38, 103], [214, 79, 69], [248, 149, 59], [250, 236, 168]];
  const HEAT = new Uint8ClampedArray(256 * 3);
  for (let i = 0; i < 256; i++) {
    const place = (i / 255) * (STOPS.length - 1), k = Math.min(Math.floor(place), STOPS.length - 2);
    for (let c = 0; c < 3; c++) HEAT[3 * i + c] = STOPS[k][c] + (place - k) * (STOPS[k + 1][c] - STOPS[k][c]);
  }

  // ---- pictures: decoded when they are first looked at ----
  const state = { index: 0, left: null, right: null, cut: 0.5, x: 0.5, y: 0.5, zoom: 8, shown: null };
  const cache = new Map();

  async function pixels(uri, width, height) {
    const image = new Image();
    image.src = uri;
    await image.decode();
    const canvas = new OffscreenCanvas(width, height);
    const context = canvas.getContext("2d", { willReadFrequently: true });
    context.drawImage(image, 0, 0);
    return context.getImageData(0, 0, width, height).data;
  }

  const methodName = (number) => data.methods[number] || "";
  const titled = (what, number) => (methodName(number) ? `${what}, ${methodName(number)}` : what);

  // Layers of a picture: {key, title, kind, rgba, value?}; value holds the error or std of each pixel.
  async function layersOf(index) {
    if (cache.has(index)) return cache.get(index);
    const entry = data.images[index], { width, height } = entry, layers = [];
    const truth = await pixels(entry.truth, width, height);
    if (entry.before)
      layers.push({ key: "before", title: "Before", kind: "photo", rgba: await pixels(entry.before, width, height) });
    layers.push({ key: "truth", title: "Truth", kind: "photo", rgba: truth });
    let top = 0;
    const maps = [];
    for (const one of entry.layers) {
      const mean = await pixels(one.mean, width, height);
      layers.push({ key: `result-${one.method}`, title: titled("Result", one.method), kind: "photo", rgba: mean });
      const error = new Float32Array(width * height);
      for (let i = 0, j = 0; j < error.length; i += 4, j++)
        error[j] = (Math.abs(mean[i] - truth[i]) + Math.abs(mean[i + 1] - truth[i + 1]) + Math.abs(mean[i + 2] - truth[i + 2])) / 765;
      if (one.std) {
        const grey = await pixels(one.std, width, height), std = new Float32Array(error.length);
        for (let j = 0; j < std.length; j++) std[j] = (grey[4 * j] / 255) * one.std_top;
        maps.push({ key: `std-${one.method}`, title: titled("Uncertainty", one.method), kind: "std", value: std, mean });
        top = Math.max(top, high(std));
      }
      maps.push({ key: `error-${one.method}`, title: titled("Error", one.method), kind: "error", value: error });
      top = Math.max(top, high(error));
    }
    top = top || 1 / 255;
    for (const map of maps) {
      map.rgba = painted(map, top);
      layers.push(map);
    }
    const found = { entry, layers, top, worst: worst(maps, width, height) };
    if (cache.size > 3) cache.delete(cache.keys().next().value);
    cache.set(index, found);
    return found;
  }

  // The value that 99.5 % of the pixels stay below: one bright pixel must not darken the map.
  function high(values) {
    const sorted = Float32Array.from(values).sort();
    return sorted[Math.floor(0.995 * (sorted.length - 1))];
  }

  // Where to point the lens first: the middle of the square with the largest error.
  function worst(maps, width, height) {
    const error = maps.find((map) => map.kind === "error"), side = 16, across = Math.ceil(width / side);
    if (!error) return [0.5, 0.5];
    const sums = new Float32Array(across * Math.ceil(height / side));
    for (let j = 0; j < error.value.length; j++)
      sums[Math.floor(Math.floor(j / width) / side) * across + Math.floor((j % width) / side)] += error.value[j];
    const place = sums.indexOf(Math.max(...sums));
    return [((place % across) + 0.5) * side / width, (Math.floor(place / across) + 0.5) * side / height];
  }

  // Error: plain heat. Uncertainty: heat laid over the greyed result, the stronger the less certain.
  function painted(map, top) {
    const rgba = new Uint8ClampedArray(4 * map.value.length);
    for (let j = 0, i = 0; j < map.value.length; j++, i += 4) {
      const level = clamp(map.value[j] / top, 0, 1), heat = 3 * Math.round(255 * level);
      const cover = map.kind === "std" ? 0.35 + 0.6 * Math.sqrt(level) : 1;
      const grey = map.mean ? 0.3 * map.mean[i] + 0.59 * map.mean[i + 1] + 0.11 * map.mean[i + 2] : 0;
      for (let c = 0; c < 3; c++) rgba[i + c] = cover * HEAT[heat + c] + (1 - cover) * grey;
      rgba[i + 3] = 255;
    }
    return rgba;
  }

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

  // ---- the table: sort by a column, open a row's picture ----
  const order = (cell) => (cell.dataset.value !== undefined ? Number(cell.dataset.value) : null);

  function sortBy(heads, place) {
    const head = heads[place], body = head.closest("table").tBodies[0];
    const numeric = head.classList.contains("number");
    const down = head.getAttribute("aria-sort") ? head.getAttribute("aria-sort") === "ascending" : numeric;
    for (const other of heads) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const sign = down ? -1 : 1;
    const rows = [...body.rows].sort((a, b) => {
      const x = a.cells[place], y = b.cells[place];
      if (!numeric) return sign * x.textContent.localeCompare(y.textContent, undefined, { numeric: true });
      const [p, q] = [order(x), order(y)];
      if (p === null || q === null) return (p === null) - (q === null);
      return sign * (p - q);
    });
    body.append(...rows);
  }

  const heads = [...document.querySelectorAll("#all thead th")];
  heads.forEach((head, place) => head.firstElementChild.addEventListener("click", () => sortBy(heads, place)));
  for (const row of document.querySelectorAll("#all tbody tr")) {
    const index = indexOf.get(row.dataset.image);
    if (index === undefined) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = row.dataset.image;
    button.title = `Look at ${row.dataset.image}`;
    button.addEventListener("click", () => show(index, { scroll: true }));
    row.cells[0].replaceChildren(button);
  }

  // ---- the charts: names on hover, the picture on click ----
  for (const mark of document.querySelectorAll("svg title")) {
    const target = mark.parentNode, text = mark.textContent, tip = $("tip");
    mark.remove();
    target.setAttribute("aria-label", text);
    target.addEventListener("pointerenter", (event) => {
      tip.textContent = text;
      tip.hidden = false;
      tip.style.left = `${clamp(event.clientX + 12, 0, innerWidth - tip.offsetWidth - 8)}px`;
      tip.style.top = `${event.clientY - 34}px`;
    });
    target.addEventListener("pointerleave", () => { tip.hidden = true; });
    const index = indexOf.get(target.dataset.image);
    if (index !== undefined) target.addEventListener("click", () => show(index, { scroll: true }));
  }

  if (data.images.length) startViewer();
})();
