// Draws curves and tensors.

const SVG = "http://www.w3.org/2000/svg";

// Draws losses, one a step, and accuracies, one an epoch, into an element.
export function drawCurves(element, losses, accuracies) {
  const [width, height] = [600, 200];
  const greatest = Math.max(...losses, 1e-9);
  const line = (values, scale) => {
    const step = width / Math.max(values.length - 1, 1);
    return values.map((value, at) => `${(at * step).toFixed(1)},${(height * (1 - value * scale)).toFixed(1)}`).join(" ");
  };
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", `0 -4 ${width} ${height + 8}`);
  svg.setAttribute("preserveAspectRatio", "none");
  const curves = [["loss", smooth(losses), 1 / greatest], ["accuracy", accuracies, 1]];
  for (const [name, values, scale] of curves) {
    const curve = document.createElementNS(SVG, "polyline");
    curve.setAttribute("class", name);
    curve.setAttribute("points", line(values, scale));
    svg.append(curve);
  }
  element.replaceChildren(svg);
}

// The running mean over an epoch or so, of at most 600 values.
function smooth(losses) {
  const part = Math.max(1, Math.ceil(losses.length / 600));
  const means = [];
  for (let at = 0; at < losses.length; at += part) {
    const values = losses.slice(at, at + part);
    means.push(values.reduce((sum, value) => sum + value, 0) / values.length);
  }
  return means;
}

// Divides a tensor into pictures: a matrix with 64 rows has one of 8 × 8 for each column, as its rows are pixels, and a kernel of a
// convolution one for each pair of features.
function tiles({ shape, values }) {
  if (shape.length === 4 || (shape.length === 2 && shape[0] === 64)) {
    const [rows, columns] = shape.length === 4 ? shape : [8, 8];
    const count = values.length / (rows * columns);
    return { rows, columns, count, at: (tile, place) => values[place * count + tile] };
  }
  const columns = shape.at(-1) ?? 1;
  return { rows: values.length / columns, columns, count: 1, at: (_, place) => values[place] };
}

// Draws a tensor: blue is negative, red is positive, and the background is 0.
export function drawTensor(canvas, tensor) {
  const { rows, columns, count, at } = tiles(tensor);
  const across = Math.min(count, Math.max(1, Math.floor(160 / (columns + 1))));
  const down = Math.ceil(count / across);
  canvas.width = across * (columns + 1) - 1;
  canvas.height = down * (rows + 1) - 1;
  const context = canvas.getContext("2d");
  const greatest = tensor.values.reduce((greatest, value) => Math.max(greatest, Math.abs(value)), 1e-30);
  for (let tile = 0; tile < count; tile++) {
    for (let place = 0; place < rows * columns; place++) {
      const value = at(tile, place) / greatest;
      const strength = Math.sqrt(Math.abs(value));
      context.fillStyle = value < 0 ? `rgb(40 110 255 / ${strength})` : `rgb(235 60 40 / ${strength})`;
      const x = (tile % across) * (columns + 1) + (place % columns);
      const y = Math.floor(tile / across) * (rows + 1) + Math.floor(place / columns);
      context.fillRect(x, y, 1, 1);
    }
  }
}

// Draws an image of 8 × 8 pixels, black on the background of the canvas.
export function drawImage(canvas, pixels) {
  canvas.width = canvas.height = 8;
  const context = canvas.getContext("2d");
  pixels.forEach((pixel, place) => {
    context.globalAlpha = pixel;
    context.fillRect(place % 8, Math.floor(place / 8), 1, 1);
  });
}
