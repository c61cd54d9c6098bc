// The page around the viewer: colour scheme, sortable table, chart labels.

// ---- light and dark ----
const root = document.documentElement;
$("theme").addEventListener("click", () => {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});

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
