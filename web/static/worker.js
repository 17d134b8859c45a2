// Runs a lesson away from the page, which stays responsive: a message is a call of a method, and its answer is the result.
import init, { Lesson } from "./page.js";

// What the library prints is shown by the page.
for (const stream of ["log", "warn"]) {
  console[stream] = (text) => postMessage({ printed: String(text) });
}

const lesson = init({ module_or_path: "page_bg.wasm" }).then(() => new Lesson(0));

onmessage = async ({ data: { id, method, given } }) => {
  try {
    const result = (await lesson)[method](...given);
    postMessage({ id, result });
  } catch (problem) {
    // An error is a text. Anything else is a panic, after which the module cannot be used.
    const isError = typeof problem === "string";
    postMessage({ id, problem: isError ? problem : problem.message, ended: !isError });
  }
};
