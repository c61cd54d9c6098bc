// The magic wand: what is joined to a pixel and has nearly its colour.

const MOST = 16e6; // pixels that are looked at; a larger picture is looked at one level smaller
let seen = { picture: null };

function pixelsOf(picture) {
  if (seen.picture === picture) return seen;
  const bitmap = picture.levels.find((level) => level.width * level.height <= MOST) ?? picture.levels.at(-1);
  const canvas = new OffscreenCanvas(bitmap.width, bitmap.height);
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.drawImage(bitmap, 0, 0);
  const { data } = context.getImageData(0, 0, bitmap.width, bitmap.height);
  seen = { picture, data, width: bitmap.width, height: bitmap.height, factor: picture.width / bitmap.width };
  return seen;
}

// Rows of pixels [x, y, width, height] at full size, and the box around them; null outside the picture.
export function flood(picture, at, tolerance) {
  const { data, width, height, factor } = pixelsOf(picture);
  const x0 = Math.floor(at[0] / factor), y0 = Math.floor(at[1] / factor);
  if (x0 < 0 || y0 < 0 || x0 >= width || y0 >= height) return null;
  const start = 4 * (y0 * width + x0);
  const [r, g, b] = [data[start], data[start + 1], data[start + 2]];
  const most = 3 * tolerance * tolerance;
  const visited = new Uint8Array(width * height);
  const like = (i) => {
    const [dr, dg, db] = [data[4 * i] - r, data[4 * i + 1] - g, data[4 * i + 2] - b];
    return dr * dr + dg * dg + db * db <= most;
  };
  const rows = [], box = { left: x0, right: x0, top: y0, bottom: y0 };
  const stack = [[x0, y0]];
  while (stack.length) {
    const [x, y] = stack.pop();
    const line = y * width;
    if (visited[line + x]) continue;
    let left = x, right = x;
    while (left > 0 && !visited[line + left - 1] && like(line + left - 1)) left--;
    while (right < width - 1 && !visited[line + right + 1] && like(line + right + 1)) right++;
    visited.fill(1, line + left, line + right + 1);
    rows.push([left * factor, y * factor, (right - left + 1) * factor, factor]);
    box.left = Math.min(box.left, left); box.right = Math.max(box.right, right);
    box.top = Math.min(box.top, y); box.bottom = Math.max(box.bottom, y);
    for (const next of [y - 1, y + 1]) {
      if (next < 0 || next >= height) continue;
      let inside = false;
      for (let i = left; i <= right; i++) {
        const open = !visited[next * width + i] && like(next * width + i);
        if (open && !inside) stack.push([i, next]);
        inside = open;
      }
    }
  }
  for (const side of ["left", "right", "top", "bottom"]) box[side] *= factor;
  return { rows, box: { ...box, right: box.right + factor, bottom: box.bottom + factor } };
}
