// The page: what visitors draw goes to the functions of the module, what they return to the screen.
import { load } from "./site.mjs";

const library = await load();
const $ = (id) => document.getElementById(id);

function strokes(canvas, draw) {
  let last = null;
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return [
      ((event.clientX - box.left) / box.width) * canvas.width,
      ((event.clientY - box.top) / box.height) * canvas.height,
    ];
  };
  canvas.addEventListener("pointerdown", (event) => draw((last = at(event)), last));
  addEventListener("pointermove", (event) => last && draw(last, (last = at(event))));
  addEventListener("pointerup", () => (last = null));
}

// The reader of digits.
const pad = $("pad"), ink = pad.getContext("2d", { willReadFrequently: true });
const small = new OffscreenCanvas(32, 32).getContext("2d", { willReadFrequently: true });
const reader = library.site_read.prepare();
const bars = [...Array(10).keys()].map((digit) => {
  const row = $("bars").appendChild(document.createElement("div"));
  row.append(Object.assign(document.createElement("i"), { textContent: digit }));
  return row.appendChild(document.createElement("b"));
});

// The drawing, cut out and scaled to 32 x 32 numbers from 0 to 1; null if there is none.
function drawing() {
  const { data } = ink.getImageData(0, 0, pad.width, pad.height);
  let [left, top, right, bottom] = [pad.width, pad.height, -1, -1];
  for (let i = 3; i < data.length; i += 4) {
    if (data[i] < 128) continue;
    const x = ((i - 3) / 4) % pad.width, y = Math.floor((i - 3) / 4 / pad.width);
    [left, top] = [Math.min(left, x), Math.min(top, y)];
    [right, bottom] = [Math.max(right, x), Math.max(bottom, y)];
  }
  if (right < 0) return null;
  const size = Math.max(right - left, bottom - top) + 1;
  const x = (left + right + 1 - size) / 2, y = (top + bottom + 1 - size) / 2;
  small.clearRect(0, 0, 32, 32);
  small.imageSmoothingQuality = "high";
  small.drawImage(pad, x, y, size, size, 0, 0, 32, 32);
  const { data: pixels } = small.getImageData(0, 0, 32, 32);
  return Float32Array.from({ length: 1024 }, (_, i) => pixels[4 * i + 3] / 255);
}

function read() {
  const image = drawing();
  if (image !== null) {
    reader.arrays.drawing = image;
    const start = performance.now();
    for (let i = 0; i < 100; ++i) reader.run();
    $("read-time").textContent = `${((performance.now() - start) * 10).toFixed(1)} µs`;
  }
  const found = image === null ? new Float32Array(10) : reader.arrays.out;
  const best = found.indexOf(Math.max(...found));
  bars.forEach((bar, digit) => {
    bar.style.width = `${90 * found[digit]}%`;
    bar.parentNode.className = image !== null && digit === best ? "best" : "";
  });
  $("bars").dataset.digit = image === null ? "" : best;
}

strokes(pad, (from, to) => {
  Object.assign(ink, { lineWidth: 26, lineCap: "round", strokeStyle: "#222" });
  ink.beginPath();
  ink.moveTo(...from);
  ink.lineTo(...to);
  ink.stroke();
  read();
});
$("clear").onclick = () => {
  ink.clearRect(0, 0, pad.width, pad.height);
  read();
};

// The wind tunnel. Its arrays are in the memory of the module: each call replaces the air.
const tunnel = $("tunnel"), screen = tunnel.getContext("2d");
const { width, height } = tunnel;
const air = library.site_advance.prepare();

function put(x, y, radius) {
  const { solid } = air.arrays;
  for (let row = Math.ceil(y - radius); row <= y + radius; ++row) {
    for (let column = Math.ceil(x - radius); column <= x + radius; ++column) {
      const isInside = row >= 0 && row < height && column > 1 && column < width - 2;
      if (isInside && Math.hypot(row - y, column - x) <= radius) solid[row * width + column] = 1;
    }
  }
}

function reset() {
  air.arrays.flow = library.site_start();
  air.arrays.solid.fill(0);
  put(40, 41, 8);
}

strokes(tunnel, ([x0, y0], [x1, y1]) => {
  const steps = Math.ceil(Math.hypot(x1 - x0, y1 - y0)) || 1;
  for (let i = 0; i <= steps; ++i) put(x0 + ((x1 - x0) * i) / steps, y0 + ((y1 - y0) * i) / steps, 1.5);
});
$("reset").onclick = reset;

let frames = 0, spent = 0;
function frame() {
  const start = performance.now();
  air.run();
  spent += performance.now() - start;
  const pixels = Uint8ClampedArray.from(air.arrays.out1);
  screen.putImageData(new ImageData(pixels, width, height), 0, 0);
  tunnel.dataset.frames = ++frames;
  if (frames % 30 === 0) {
    $("flow-time").textContent = `${(spent / 30).toFixed(1)} ms for eight steps of ${width} × ${height} cells`;
    spent = 0;
  }
  requestAnimationFrame(frame);
}
reset();
frame();
