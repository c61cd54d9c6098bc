// All pictures of one photograph side by side: one zoom and one place for all of them.
const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const clamp = (x, low, high) => Math.min(high, Math.max(low, x));
const MOST = 32;
const view = { index: 0, zoom: 1, x: 0.5, y: 0.5 }; // x, y: what is in the middle, in parts of the picture
let windows = [];

const root = document.documentElement;
$("theme").addEventListener("click", () => {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});

function place() {
  const half = 0.5 / view.zoom;
  view.x = clamp(view.x, half, 1 - half);
  view.y = clamp(view.y, half, 1 - half);
  const [left, top] = [(view.x - half) * view.zoom * 100, (view.y - half) * view.zoom * 100];
  for (const one of windows)
    one.firstElementChild.style.transform = `translate(${-left}%, ${-top}%) scale(${view.zoom})`;
  const entry = data.pictures[view.index];
  $("panels").classList.toggle("sharp", windows.length > 0 && view.zoom * windows[0].clientWidth > 2 * entry.width);
  $("zoom").value = Math.log2(view.zoom);
  $("zoom-value").textContent = `${view.zoom.toFixed(1)}×`;
}

// Zoom about a point of the window, given in parts of it; the point stays where it is.
function zoomTo(zoom, u = 0.5, v = 0.5) {
  const next = clamp(zoom, 1, MOST);
  view.x += (u - 0.5) * (1 / view.zoom - 1 / next);
  view.y += (v - 0.5) * (1 / view.zoom - 1 / next);
  view.zoom = next;
  place();
}

function cross(u, v, shown) {
  for (const one of windows) {
    const mark = one.lastElementChild;
    mark.hidden = !shown;
    mark.style.left = `${100 * u}%`;
    mark.style.top = `${100 * v}%`;
  }
}

const within = (one, event) => {
  const box = one.getBoundingClientRect();
  return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height, box];
};

function listen(one) {
  const fingers = new Map();
  one.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey && view.zoom === 1 && event.deltaY > 0) return; // the page scrolls on
    const [u, v] = within(one, event);
    zoomTo(view.zoom * Math.exp(-event.deltaY / 300), u, v);
    event.preventDefault();
  }, { passive: false });
  one.addEventListener("pointerdown", (event) => {
    fingers.set(event.pointerId, event);
    one.setPointerCapture(event.pointerId);
  });
  one.addEventListener("pointermove", (event) => {
    const [u, v, box] = within(one, event);
    cross(u, v, event.pointerType === "mouse");
    const before = fingers.get(event.pointerId);
    if (!before) return;
    const others = [...fingers.values()].filter((other) => other.pointerId !== event.pointerId);
    if (others.length) {
      const apart = (a) => Math.hypot(a.clientX - others[0].clientX, a.clientY - others[0].clientY);
      zoomTo((view.zoom * apart(event)) / Math.max(1, apart(before)), u, v);
    } else if (view.zoom === 1 && event.pointerType === "touch") {
      scrollBy(0, before.clientY - event.clientY);
    } else {
      view.x -= (event.clientX - before.clientX) / box.width / view.zoom;
      view.y -= (event.clientY - before.clientY) / box.height / view.zoom;
      place();
    }
    fingers.set(event.pointerId, event);
  });
  for (const end of ["pointerup", "pointercancel"]) one.addEventListener(end, (event) => fingers.delete(event.pointerId));
  one.addEventListener("pointerleave", () => cross(0, 0, false));
  one.addEventListener("dblclick", (event) => zoomTo(view.zoom > 1 ? 1 : 4, ...within(one, event).slice(0, 2)));
}

function panelOf(one, entry) {
  const figure = document.createElement("figure"), frame = document.createElement("div"), image = new Image();
  const caption = document.createElement("figcaption"), title = document.createElement("span"), numbers = document.createElement("small");
  const mark = document.createElement("i");
  figure.className = "panel";
  frame.className = "window";
  frame.style.aspectRatio = `${entry.width} / ${entry.height}`;
  image.src = one.picture;
  image.alt = `${entry.name}, ${one.title}`;
  mark.className = "cross";
  mark.hidden = true;
  title.textContent = title.title = one.title;
  numbers.textContent = one.numbers;
  caption.append(title, numbers);
  frame.append(image, mark);
  figure.append(frame, caption);
  listen(frame);
  return figure;
}

async function show(index) {
  view.index = (index + data.pictures.length) % data.pictures.length;
  const entry = data.pictures[view.index];
  $("panels").replaceChildren(...entry.panels.map((one) => panelOf(one, entry)));
  windows = [...document.querySelectorAll(".window")];
  $("choose").value = String(view.index);
  place();
  await Promise.all([...document.querySelectorAll(".window img")].map((image) => image.decode()));
  $("panels").dataset.ready = String(view.index);
}

if (data.pictures.length) {
  $("pictures").hidden = false;
  $("choose").append(...data.pictures.map((one, index) => new Option(`${one.damage}: ${one.name}`, String(index))));
  $("choose").addEventListener("change", (event) => show(Number(event.target.value)));
  $("previous").addEventListener("click", () => show(view.index - 1));
  $("next").addEventListener("click", () => show(view.index + 1));
  $("zoom").max = Math.log2(MOST);
  $("zoom").addEventListener("input", (event) => zoomTo(2 ** Number(event.target.value)));
  $("whole").addEventListener("click", () => zoomTo(1));
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    const moves = { n: () => show(view.index + 1), p: () => show(view.index - 1), "+": () => zoomTo(view.zoom * 1.5), "=": () => zoomTo(view.zoom * 1.5), "-": () => zoomTo(view.zoom / 1.5), 0: () => zoomTo(1) };
    moves[event.key.toLowerCase()]?.();
  });
  show(0);
}
