// Prints the times of epochs as wasm in Node: `node time.mjs target/page`. The example `native` of `page` prints those of this machine.
import { readFileSync } from "node:fs";

const folder = process.argv[2];
const script = readFileSync(`${folder}/page.js`).toString("base64");
const { initSync, Lesson } = await import(`data:text/javascript;base64,${script}`);
initSync({ module: readFileSync(`${folder}/page_bg.wasm`) });
for (const network of ["mlp", "cnn"]) {
  const lesson = new Lesson(0);
  lesson.set_network(network);
  const [first, ...others] = Array.from({ length: 40 }, () => JSON.parse(lesson.train()).milliseconds);
  others.sort((left, right) => left - right);
  console.log(`${network}: first epoch ${first.toFixed(1)} ms, median of the others ${others[others.length >> 1].toFixed(1)} ms`);
}
