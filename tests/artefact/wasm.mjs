// Runs an exported model's WebAssembly: a folder, then the dims, the inputs and the outputs' bytes
// as JSON from standard input; writes the outputs' bytes in hexadecimal.

import { readFileSync } from "node:fs";

const { name, library, weights, dims, inputs, outputs } = JSON.parse(readFileSync(0, "utf-8"));
const { instance } = await WebAssembly.instantiate(readFileSync(library), {});
const { memory, ...calls } = instance.exports;
let top = memory.buffer.byteLength;
const place = (bytes) => {
  const at = top;
  top = at + Math.ceil(Math.max(1, bytes.length ?? bytes) / 64) * 64;
  memory.grow(Math.max(0, Math.ceil((top - memory.buffer.byteLength) / 65536)));
  if (bytes.length) new Uint8Array(memory.buffer).set(bytes, at);
  return at;
};
const pointers = (all) => place(new Uint8Array(new Uint32Array(all.length ? all : [0]).buffer));
const check = (code) => {
  if (code) throw new Error(`${name} returned ${code}`);
};
const file = weights ? readFileSync(weights) : new Uint8Array(1);
const data = place(file), sizes = place(new Uint8Array(new BigInt64Array([...dims, 0].map(BigInt)).buffer));
check(calls[`${name}_open`](data, file.length));
const axes = place(4096);
check(calls[`${name}_sizes_of`](sizes, axes));
const arena = place(Number(new DataView(memory.buffer).getBigInt64(axes, true)));
const results = outputs.map(place);
const given = pointers(inputs.map((hex) => place(Buffer.from(hex, "hex"))));
check(calls[`${name}_run`](sizes, data, given, pointers(results), arena, 0));
const made = results.map((at, k) => Buffer.from(memory.buffer, at, outputs[k]).toString("hex"));
process.stdout.write(JSON.stringify(made));
