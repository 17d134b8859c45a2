// Compares the programs that the goldens recorded here and on another platform: node compare.mjs HERE.jsonl THERE.jsonl. Results have
// the same bits, but for the signs of NaNs, which IEEE 754 leaves open.
import { readFileSync } from "node:fs";

const digits = { f32: 8, f64: 16 };

// Returns a tensor whose NaNs are positive. Its elements are hexadecimal, with the lowest byte first.
function withoutSigns([dtype, shape, elements]) {
  const length = digits[dtype];
  if (!length) return [dtype, shape, elements];
  const isNaN = (element) => {
    const bytes = Buffer.from(element, "hex");
    return Number.isNaN(length === 8 ? bytes.readFloatLE() : bytes.readDoubleLE());
  };
  const found = elements.match(new RegExp(`.{${length}}`, "g")) ?? [];
  return [dtype, shape, found.map((element) => (isNaN(element) ? "NaN" : element)).join("")];
}

// Threads record in any order.
const read = (file) =>
  readFileSync(file, "utf8")
    .split("\n")
    .filter((line) => line)
    .map((line) => JSON.parse(line, (key, value) => (key === "results" ? value.map((tensors) => tensors.map(withoutSigns)) : value)))
    .map((program) => JSON.stringify(program))
    .sort();

const [here, there] = process.argv.slice(2).map(read);
const differ = here.filter((program, at) => program !== there[at]);
for (const program of differ) console.log(`other bits: ${JSON.parse(program).names.join(", ").slice(0, 200)}`);
console.log(`${here.length - differ.length} of ${here.length} programs have the same bits`);
process.exitCode = differ.length > 0 || here.length !== there.length || here.length === 0 ? 1 : 0;
