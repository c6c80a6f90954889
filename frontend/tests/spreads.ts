// A product whose second factor is cut over two workers, and a pipeline of two stages.

import type { Facts, Workers } from "../src/data/model";
import type { Made, Node } from "./made";

const x: Node = { id: 1, op: "input", type: "f32[8, 4]", name: "x" };
const w: Node = { id: 2, op: "input", type: "f32[4, 4]", name: "w" };

const WORKERS: Workers = {
  axes: [["model", 2]],
  cuts: { "-, -": [1, 5], "-, model": [2], "-, - sum model": [4] },
  sent: [[5, "all_reduce", "model", "%4", 128, "each has a term of %4"]],
  placed: [[1, "x", "[8, 4]", ["-", "-"], false], [2, "w", "[4, 4]", ["-", "model"], true]],
  lanes: {
    workers: 2, microbatches: 0, sent: [], within: null,
    work: [[0, "compute", 0, 0, 1e-3], [0, "send", 0, 3e-3, 4e-3], [1, "compute", 0, 0, 3e-3], [1, "send", 0, 3e-3, 4e-3]],
    met: [["all_reduce", "model", [0, 1], 128, 3e-3, 4e-3]],
  },
};

const facts = (workers: Workers): Partial<Facts> => ({ workers });

export const MESH: Made = {
  facts: facts(WORKERS),
  stages: [
    { title: "as written", nodes: [x, w, { id: 3, op: "mul", reads: [1, 2], type: "f32[8, 4]" }] },
    {
      title: "shard", links: [[3, 4]],
      firings: [{ rule: "change-of-layout", gone: [{ id: 3, op: "mul", reads: [1, 2] }], fresh: [{ id: 4, op: "mul", reads: [1, 2] }] }],
      nodes: [x, w, { id: 4, op: "mul", reads: [1, 2], type: "f32[8, 4]" }, { id: 5, op: "reshard", kind: "sent", reads: [4], type: "f32[8, 4]" }],
    },
  ],
};

export const PIPELINE: Made = {
  facts: facts({
    ...WORKERS,
    axes: [["stage", 2]], cuts: { "stage 0": [1, 4], "stage 1": [5] }, placed: [],
    sent: [[5, "send", "0 → 1", "%4", 128, "%6 sin is in stage 1"]],
    lanes: {
      workers: 2, microbatches: 2, met: [], within: 4e-6,
      work: [[0, "forward", 0, 0, 1e-3], [0, "forward", 1, 1e-3, 2e-3], [1, "forward", 0, 1e-3, 2e-3], [1, "forward", 1, 2e-3, 3e-3], [1, "end", -1, 3e-3, 4e-3]],
      sent: [[0, 1, "%9", 64, 1e-3, 1e-3], [0, 1, "%9", 64, 2e-3, 2e-3]],
    },
  }),
  stages: MESH.stages,
};
