// Connects the controls of the page to the lesson.
import { Client } from "./client.js";
import { Drawing } from "./drawing.js";
import { drawCurves, drawImage, drawTensor } from "./pictures.js";

const find = (id) => document.getElementById(id);
const make = (tag, properties = {}, ...children) => {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
};

function print(text, isProblem = false) {
  const line = make("div", { className: isProblem ? "problem" : "", textContent: text.trimEnd() });
  find("messages").append(line);
  line.scrollIntoView({ block: "nearest" });
}

const client = new Client(print);
// Runs what a control does, and shows the problem if there is one.
const act = (action) => async (event) => {
  try {
    await action(event);
  } catch (problem) {
    print(problem.message, true);
  }
};

let losses = [];
let accuracies = [];
let isTraining = false;
// Training that has been asked for ends before the network is changed.
let training = Promise.resolve();

async function trainEpoch() {
  const epoch = await client.read("train");
  losses.push(...epoch.losses);
  accuracies.push(epoch.accuracy);
  drawCurves(find("curves"), losses, accuracies);
  find("status").textContent =
    `epoch ${epoch.epoch}: loss ${epoch.losses.at(-1).toFixed(4)}, test accuracy ${epoch.accuracy.toFixed(4)}, ` +
    `${epoch.milliseconds.toFixed(1)} ms`;
  find("traces").textContent = `traced ${epoch.traces} ${epoch.traces === 1 ? "time" : "times"}`;
  find("reason").textContent = epoch.reason ?? "The step was traced once, for its structure, shapes and dtypes.";
  await client.keep();
}

async function train(epochs) {
  isTraining = true;
  find("train").textContent = "Pause";
  try {
    for (let epoch = 0; epoch < epochs && isTraining; epoch++) await trainEpoch();
  } finally {
    isTraining = false;
    find("train").textContent = "Train";
  }
  await Promise.all([showGradient(), classify()]);
}

const startTraining = (epochs) => (training = training.then(() => train(epochs)));

async function pause() {
  isTraining = false;
  await training.catch(() => {});
  training = Promise.resolve();
}

// Shows the leaves, and offers the layers that can be frozen.
async function showModel() {
  const leaves = await client.read("leaves");
  const cells = (leaf) => [leaf.path, leaf.kind ?? "", leaf.array ?? "", leaf.trained ? "trained" : "fixed"];
  const row = (leaf) =>
    make("tr", { className: leaf.trained ? "trained" : "" }, ...cells(leaf).map((text) => make("td", {}, text)));
  find("leaves").replaceChildren(...leaves.map(row));
  const total = leaves.reduce((sum, leaf) => sum + (leaf.kind === "Param" ? leaf.elements : 0), 0);
  find("total").textContent = `${total.toLocaleString("en")} parameters`;

  const params = leaves.filter((leaf) => leaf.kind === "Param");
  const layers = [...new Set(params.map((leaf) => leaf.path.replace(/\.[^.]*$/, "")))];
  const frozen = new Set(layers.filter((layer) => !params.some((leaf) => leaf.path.startsWith(`${layer}.`) && leaf.trained)));
  const box = (layer) => make("label", {}, make("input", { type: "checkbox", value: layer, checked: frozen.has(layer) }), ` ${layer}`);
  find("layers").replaceChildren(...layers.map(box));

  const chosen = find("leaf").value;
  find("leaf").replaceChildren(...params.map((leaf) => make("option", { selected: leaf.path === chosen }, leaf.path)));
  find("jaxpr").textContent = await client.call("jaxpr");
  await showGradient();
}

async function showGradient() {
  drawTensor(find("gradient"), await client.read("gradient", find("leaf").value));
}

const drawing = new Drawing(find("drawing"), () => act(classify)());

async function classify() {
  const pixels = drawing.pixels();
  if (pixels) drawImage(find("seen"), pixels);
  const probabilities = pixels ? await client.call("classify", pixels) : new Float32Array(10);
  const best = probabilities.indexOf(Math.max(...probabilities));
  find("answer").textContent = pixels ? `${best}` : "–";
  [...find("bars").children].forEach((bar, digit) => {
    bar.querySelector("meter").value = probabilities[digit];
  });
}

const bar = (digit) => make("label", {}, `${digit} `, make("meter", { min: 0, max: 1, value: 0 }));
find("bars").replaceChildren(...Array.from({ length: 10 }, (_, digit) => bar(digit)));

// Changes the lesson between two epochs, and goes on with training if it was running.
async function change(method, ...given) {
  const wasTraining = isTraining;
  await pause();
  try {
    await client.set(method, ...given);
  } finally {
    await showModel();
  }
  if (wasTraining) await startTraining(Infinity);
}

async function useNetwork() {
  losses = [];
  accuracies = [];
  drawCurves(find("curves"), losses, accuracies);
  find("status").textContent = "not trained";
  await change("set_network", find("network").value);
}

find("train").onclick = act(() => (isTraining ? pause() : startTraining(Infinity)));
find("restart").onclick = act(useNetwork);
find("network").onchange = act(useNetwork);
find("activation").onchange = act(() => change("set_activation", find("activation").value));
find("layers").onchange = act(() => {
  const boxes = [...find("layers").querySelectorAll("input:checked")];
  return change("freeze", boxes.map((box) => box.value));
});
find("leaf").onchange = act(showGradient);
find("clear").onclick = () => drawing.clear();

// The steps of the tour.
find("try-train").onclick = act(() => startTraining(5));
find("try-mistake").onclick = act(async () => {
  await pause();
  await client.call("mistake");
});
find("try-kinds").onclick = () => find("tree").focus();
find("try-compile").onclick = act(async () => {
  find("activation").value = find("activation").value === "tanh" ? "relu" : "tanh";
  await change("set_activation", find("activation").value);
  if (!isTraining) await startTraining(1);
  find("why").focus();
});
find("try-nest").onclick = act(async () => {
  const { images, digits, norms } = await client.read("norms_of_gradients");
  const figure = (norm, at) => {
    const canvas = make("canvas", { role: "img", ariaLabel: `the digit ${digits[at]}` });
    find("norms").append(make("figure", {}, canvas, make("figcaption", {}, norm.toPrecision(3))));
    drawImage(canvas, images.slice(64 * at, 64 * (at + 1)));
  };
  find("norms").replaceChildren();
  norms.forEach(figure);
});
find("try-save").onclick = act(async () => {
  const address = URL.createObjectURL(new Blob([await client.keep()]));
  make("a", { href: address, download: "digits.safetensors" }).click();
  URL.revokeObjectURL(address);
});
find("try-load").onchange = act(async ({ target }) => {
  const bytes = new Uint8Array(await target.files[0].arrayBuffer());
  target.value = "";
  await pause();
  await client.call("load", bytes);
  await client.keep();
  print(`loaded ${bytes.length.toLocaleString("en")} bytes`);
  await Promise.all([showGradient(), classify()]);
});

act(async () => {
  await showModel();
  for (const control of document.querySelectorAll("[disabled]")) control.disabled = false;
  find("status").textContent = "not trained";
})();
