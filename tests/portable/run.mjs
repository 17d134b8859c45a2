// Runs the program as wasm, with the output and the clock of Node: node run.mjs portable.wasm
import { readFileSync, writeSync } from "node:fs";

const bytes = readFileSync(process.argv[2]);
let memory;
const page = {
  print: (isError, text, length) => writeSync(isError ? 2 : 1, new Uint8Array(memory.buffer, text, length)),
  milliseconds: () => performance.now(),
};
const { instance } = await WebAssembly.instantiate(bytes, { page });
memory = instance.exports.memory;
instance.exports.main(0, 0);
