// Uses the page in headless Chromium, as a visitor does: `node test.mjs ADDRESS FOLDER`, where the page is served at the address. Writes
// screenshots to the folder. `./check` builds and serves the page, and runs this test.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { chromium } from "playwright-core";

const [address, folder] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium" });
const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
const page = await context.newPage();

// Whatever the page asks for, and whatever the console reports.
const requests = [];
const problems = [];
page.on("request", (request) => requests.push(request.url()));
page.on("pageerror", (error) => problems.push(error.message));
page.on("console", (message) => message.type() === "error" && problems.push(message.text()));

const text = (selector) => page.locator(selector).innerText();
const status = async () => {
  const [, epoch, accuracy, milliseconds] = /epoch (\d+): .*test accuracy ([\d.]+), ([\d.]+) ms/.exec(await text("#status")) ?? [];
  return { epoch: Number(epoch ?? 0), accuracy: Number(accuracy ?? 0), milliseconds: Number(milliseconds) };
};
const until = async (condition, seconds, what) => {
  const end = Date.now() + 1000 * seconds;
  while (!(await condition())) {
    assert.ok(Date.now() < end, `not within ${seconds} s: ${what}; ${await text("#status")}; ${await text("#messages")}`);
    await page.waitForTimeout(20);
  }
};
const pause = async () => {
  await page.click("#train");
  await page.waitForFunction(() => document.getElementById("train").textContent === "Train");
};

await page.goto(address);
await until(async () => (await text("#status")) === "not trained", 10, "the page is ready");

// The MLP reaches an accuracy of 0.95 in five seconds.
const begin = Date.now();
await page.click("#train");
await until(async () => (await status()).epoch >= 1, 5, "the first epoch");
const first = (await status()).milliseconds;
await until(async () => (await status()).accuracy >= 0.95, 5, "an accuracy of 0.95");
console.log(`MLP: accuracy 0.95 after ${Date.now() - begin} ms, in epoch ${(await status()).epoch}; first epoch ${first} ms`);
await until(async () => (await status()).epoch >= 40, 20, "40 epochs");
await pause();
console.log(`MLP: ${await text("#status")}`);
assert.equal(await text("#traces"), "traced 1 time");

// Stored drawings: for each digit, strokes in a square of side 1.
const draw = async (strokes) => {
  await page.click("#clear");
  const box = await page.locator("#drawing").boundingBox();
  const place = ([x, y]) => [box.x + x * box.width, box.y + y * box.height];
  for (const stroke of strokes) {
    await page.mouse.move(...place(stroke[0]));
    await page.mouse.down();
    for (const point of stroke.slice(1)) await page.mouse.move(...place(point), { steps: 4 });
    await page.mouse.up();
  }
};
const drawings = Object.entries(JSON.parse(readFileSync(new URL("drawings.json", import.meta.url))));
for (const [digit, strokes] of drawings) {
  await draw(strokes);
  await page.waitForFunction((digit) => document.getElementById("answer").textContent === digit, digit, { timeout: 3000 }).catch(async () => {
    assert.equal(await text("#answer"), digit, "a drawing is read as another digit");
  });
}
console.log(`drawings: ${drawings.length} of ${drawings.length} right`);

// Another activation: the reason for the second trace. Frozen layers keep their values.
await page.selectOption("#activation", "tanh");
await page.click("#train");
await until(async () => (await text("#traces")) === "traced 2 times", 5, "a second trace");
await pause();
assert.match(await text("#reason"), /activation = Relu .*activation = Tanh|activation: Relu.*Tanh/);
await page.check("#layers input >> nth=0");
await page.waitForFunction(() => document.querySelectorAll("#leaves tr:not(.trained)").length === 2);
await page.click("#train");
await until(async () => (await text("#traces")) === "traced 3 times", 5, "a third trace");
await pause();
assert.match(await text("#reason"), /frozen/);
console.log(`why traced again: ${(await text("#reason")).split("\n")[0]}`);

// A panic is a message, and the page goes on from where it was.
const { epoch } = await status();
await page.click("#try-mistake");
await until(async () => (await text("#messages")).includes("784"), 5, "the message of a panic");
console.log(`a panic: ${(await text("#messages")).split("\n").slice(0, 2).join(" ")}`);
await page.click("#train");
await until(async () => (await status()).epoch > epoch, 5, "training after a panic");
await pause();

// What the page shows of the model.
assert.match(await text("#leaves"), /mlp\.layers\[0\]\.weight\s+Param\s+f32\[64,128\]/);
await page.click("#jaxpr >> xpath=.. >> summary");
assert.match(await text("#jaxpr"), /dot_general/);
const hasInk = (id) => page.evaluate((id) => {
  const canvas = document.getElementById(id);
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return data.some((byte) => byte > 0);
}, id);
assert.ok(await hasInk("gradient"));
await page.click("text=4. Nest");
await page.click("#try-nest");
await page.waitForFunction(() => document.querySelectorAll("#norms figure").length === 10);
assert.ok((await text("#tour-title ~ details >> nth=0")).includes("value_and_grad"), "the tour has the text of the tutorial");

// A checkpoint is saved as a file, and loaded again; one of another network is refused.
await page.click("text=5. Save and load");
const [download] = await Promise.all([page.waitForEvent("download"), page.click("#try-save")]);
const file = `${folder}/digits.safetensors`;
await download.saveAs(file);
await page.setInputFiles("#try-load", file);
await until(async () => (await text("#messages")).includes("loaded"), 5, "a loaded checkpoint");

// The convolutional network.
await page.selectOption("#network", "cnn");
await page.click("#train");
await until(async () => (await status()).accuracy >= 0.95, 30, "an accuracy of 0.95 of the CNN");
await pause();
console.log(`CNN: ${await text("#status")}`);
assert.match(await text("#leaves"), /norms\[0\]\.mean\s+BatchStat/);
await page.setInputFiles("#try-load", file);
await until(async () => /missing|mismatch|expected|not in/i.test((await text("#messages")).split("loaded").at(-1)), 5, "a refused checkpoint");

// By keyboard alone: draws a line, and trains.
await page.focus("#drawing");
await page.keyboard.press("Delete");
await page.keyboard.press("Space");
for (let step = 0; step < 6; step++) await page.keyboard.press("ArrowDown");
await page.keyboard.press("Space");
await page.waitForFunction(() => /\d/.test(document.getElementById("answer").textContent));
const before = (await status()).epoch;
await page.focus("#train");
await page.keyboard.press("Enter");
await until(async () => (await status()).epoch > before, 10, "training by keyboard");
await page.keyboard.press("Enter");

await page.screenshot({ path: `${folder}/page.png`, fullPage: true });
// On a phone, in dark mode: nothing is wider than the screen.
await page.setViewportSize({ width: 360, height: 740 });
await page.emulateMedia({ colorScheme: "dark" });
const width = await page.evaluate(() => document.documentElement.scrollWidth);
assert.ok(width <= 360, `the page is ${width} pixels wide on a phone`);
const ground = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
assert.notEqual(ground, "rgb(255, 255, 255)", "the page is white in dark mode");
await page.screenshot({ path: `${folder}/phone.png`, fullPage: true });

const outside = requests.filter((url) => !url.startsWith(address) && !url.startsWith("blob:") && !url.startsWith("data:"));
assert.deepEqual(outside, [], "requests leave the page");
assert.deepEqual(problems, [], "the console has errors");
await browser.close();
console.log(`${requests.length} requests, all to the page; no error in the console`);
