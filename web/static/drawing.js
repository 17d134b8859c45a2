// A canvas on which one draws a digit, by pointer or by keyboard.

const SIDE = 224;
// As thick as the strokes of the data.
const PEN = 40;
const GRID = 16;

export class Drawing {
  #canvas;
  #context;
  #changed;
  // The pen of the keyboard: a cell of the grid, and whether it draws.
  #pen = { x: GRID / 2, y: GRID / 2, down: false };

  constructor(canvas, changed) {
    this.#canvas = canvas;
    canvas.width = canvas.height = SIDE;
    this.#context = canvas.getContext("2d", { willReadFrequently: true });
    this.#changed = changed;
    let last = null;
    const position = (event) => {
      const box = canvas.getBoundingClientRect();
      return [((event.clientX - box.left) * SIDE) / box.width, ((event.clientY - box.top) * SIDE) / box.height];
    };
    canvas.onpointerdown = (event) => {
      canvas.setPointerCapture(event.pointerId);
      last = position(event);
      this.line(last, last);
    };
    canvas.onpointermove = (event) => {
      if (!last) return;
      const next = position(event);
      this.line(last, next);
      last = next;
    };
    canvas.onpointerup = canvas.onpointercancel = () => (last = null);
    canvas.onkeydown = (event) => this.#key(event);
  }

  #key(event) {
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const cell = ({ x, y }) => [((x + 0.5) * SIDE) / GRID, ((y + 0.5) * SIDE) / GRID];
    const before = { ...this.#pen };
    if (event.key in moves) {
      const [x, y] = moves[event.key];
      this.#pen.x = Math.min(GRID - 1, Math.max(0, before.x + x));
      this.#pen.y = Math.min(GRID - 1, Math.max(0, before.y + y));
    } else if (event.key === " ") {
      this.#pen.down = !before.down;
    } else if (event.key === "Delete" || event.key === "Backspace") {
      this.clear();
    } else {
      return;
    }
    event.preventDefault();
    if (this.#pen.down) this.line(cell(before), cell(this.#pen));
    const state = this.#pen.down ? "drawing" : "not drawing";
    this.#canvas.setAttribute("aria-description", `pen in column ${this.#pen.x + 1}, row ${this.#pen.y + 1}, ${state}`);
  }

  line([x, y], [nextX, nextY]) {
    const context = this.#context;
    context.lineWidth = PEN;
    context.lineCap = context.lineJoin = "round";
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(nextX + 0.01, nextY);
    context.stroke();
    this.#changed();
  }

  clear() {
    this.#context.clearRect(0, 0, SIDE, SIDE);
    this.#changed();
  }

  // Returns 8 × 8 pixels from 0 to 1, made as those of the data: the drawing fills the height of a bitmap of 32 × 32, and each pixel is
  // the part of a square of 4 × 4 that has ink. Returns null if nothing is drawn.
  pixels() {
    const { data } = this.#context.getImageData(0, 0, SIDE, SIDE);
    const hasInk = (x, y) => data[4 * (y * SIDE + x) + 3] > 127;
    let [left, top, right, bottom] = [SIDE, SIDE, -1, -1];
    for (let y = 0; y < SIDE; y++) {
      for (let x = 0; x < SIDE; x++) {
        if (!hasInk(x, y)) continue;
        [left, right] = [Math.min(left, x), Math.max(right, x)];
        [top, bottom] = [Math.min(top, y), Math.max(bottom, y)];
      }
    }
    if (right < 0) return null;
    const size = Math.max(right - left, bottom - top) + 1;
    // The digit is in the middle between left and right.
    const [beginX, beginY] = [(left + right + 1 - size) / 2, (top + bottom + 1 - size) / 2];
    const pixels = new Float32Array(64);
    for (let y = 0; y < 32; y++) {
      for (let x = 0; x < 32; x++) {
        const sourceX = Math.floor(beginX + ((x + 0.5) * size) / 32);
        const sourceY = Math.floor(beginY + ((y + 0.5) * size) / 32);
        const isInside = sourceX >= 0 && sourceX < SIDE && sourceY >= 0 && sourceY < SIDE;
        if (isInside && hasInk(sourceX, sourceY)) pixels[8 * (y >> 2) + (x >> 2)] += 1 / 16;
      }
    }
    return pixels;
  }
}
