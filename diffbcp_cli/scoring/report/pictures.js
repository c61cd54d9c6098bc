// The data of the page, and the layers of each picture: truth, results, uncertainty and errors.
const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const clamp = (x, low, high) => Math.min(high, Math.max(low, x));

// ---- heat: dark blue over magenta and orange to pale yellow, in even steps of lightness ----
const STOPS = [[10, 9, 40], [66, 22, 104], [147, 38, 103], [214, 79, 69], [248, 149, 59], [250, 236, 168]];
const HEAT = new Uint8ClampedArray(256 * 3);
for (let i = 0; i < 256; i++) {
  const place = (i / 255) * (STOPS.length - 1), k = Math.min(Math.floor(place), STOPS.length - 2);
  for (let c = 0; c < 3; c++) HEAT[3 * i + c] = STOPS[k][c] + (place - k) * (STOPS[k + 1][c] - STOPS[k][c]);
}

// ---- pictures: decoded when they are first looked at ----
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
