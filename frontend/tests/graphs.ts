// Small graphs that several tests look at.

import type { Made, Node } from "./made";

const x: Node = { id: 1, op: "input", name: "x", origin: 0 };
const y: Node = { id: 2, op: "input", name: "y", origin: 0 };

/** (x + 0) * y, where the addition goes away: the product reads x then. */
export const SIMPLE: Made = {
  title: "simple",
  origins: [
    { file: "cell 1", line: 1, code: "x, y = cx.tensor(4), cx.tensor(4)" },
    { file: "cell 1", line: 2, code: "z = x + 0" },
    { file: "cell 2", line: 1, code: "z * y" },
  ],
  stages: [
    {
      title: "as written", outputs: [5],
      nodes: [x, y, { id: 3, op: "constant", kind: "constant" }, { id: 4, op: "add", reads: [1, 3], origin: 1 }, { id: 5, op: "mul", reads: [4, 2], origin: 2 }],
    },
    {
      title: "simplify", outputs: [5],
      nodes: [x, y, { id: 5, op: "mul", reads: [1, 2], origin: 2 }],
      links: [[4, 1]],
      firings: [
        {
          rule: "add-zero", because: "adding nothing changes nothing",
          gone: [{ id: 4, op: "add", reads: [1, 3], origin: 1 }, { id: 5, op: "mul", reads: [4, 2], origin: 2 }],
          fresh: [{ id: 5, op: "mul", reads: [1, 2], origin: 2 }],
        },
        { rule: "unused", gone: [{ id: 3, op: "constant", kind: "constant" }], fresh: [] },
      ],
    },
    { title: "nothing", nodes: [x, y, { id: 5, op: "mul", reads: [1, 2], origin: 2 }], outputs: [5] },
    {
      title: "fuse", outputs: [7],
      nodes: [x, y, { id: 7, op: "call", kind: "launch", reads: [1, 2], rule: "fuse", origin: 2 }],
      links: [[5, 7]],
      firings: [
        {
          rule: "fuse", gone: [{ id: 5, op: "mul", reads: [1, 2], origin: 2 }],
          fresh: [{ id: 6, op: "half", reads: [1, 2], rule: "fuse" }],
        },
        {
          rule: "fuse", gone: [{ id: 6, op: "half", reads: [1, 2], rule: "fuse" }],
          fresh: [{ id: 7, op: "call", kind: "launch", reads: [1, 2], rule: "fuse", origin: 2 }],
        },
      ],
    },
  ],
  facts: {
    kernels: [
      {
        name: "product", definition: "", nest: "", schedule: "", flops: 4, bytes: 48, reason: "", written: "", rules: [], first: "", steps: [],
        sources: [{ dialect: "c", title: "product.c", text: "a\nb\nc", lines: [[1, [7]], [2, [5]], [3, []]], resources: null, ptx: null }],
      },
    ],
    launches: [{ kernel: 0, name: "product", node: 7, makes: [7], reads: [1, 2], covers: [4, 5], origins: [1, 2], buffers: [0] }],
    buffers: [
      { name: "out", offset: 0, bytes: 16, first: 0, last: 0, nodes: [7], kind: "output" },
      { name: "x", offset: null, bytes: 16, first: 0, last: 0, nodes: [1], kind: "input" },
    ],
  },
};

/** Blocks one after the other, each a scope with an inner one, and a folded view in each. */
export function blocks(count: number, each = 3): Made {
  const nodes: Node[] = [{ id: 1, op: "input", name: "tokens" }];
  const folded: number[] = [];
  let last = 1, next = 2;
  for (let block = 0; block < count; block++) {
    const scope = `h${block}`, first = last;
    for (let at = 0; at < each; at++) {
      nodes.push({ id: next, op: "exp2", reads: [last], scope });
      last = next++;
      nodes.push({ id: next, op: "expand", reads: [last], scope, kind: "view" });
      folded.push(next);
      nodes.push({ id: next + 1, op: "mul", reads: [next, first], scope: `${scope}.mlp` });
      last = next + 1;
      next += 2;
    }
  }
  return { title: "blocks", folded, stages: [{ title: "as written", nodes, outputs: [last] }] };
}
