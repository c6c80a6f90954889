// From any selection to everything that is related to it, both ways.

import { expect, test } from "vitest";
import { related } from "../../src/data/relations";
import type { Selected } from "../../src/data/store";
import { SIMPLE, blocks } from "../graphs";
import { made } from "../made";

const run = made(SIMPLE).runs[0]!;

function told(selected: Selected | null) {
  const found = related(run, selected);
  const sorted = (set: Iterable<number>) => [...set].sort((a, b) => a - b);
  return {
    nodes: found.nodes.map(sorted), origins: sorted(found.origins), launches: sorted(found.launches),
    kernels: sorted(found.kernels), buffers: sorted(found.buffers), firings: found.firings.map(sorted),
    lines: Object.fromEntries([...found.lines].map(([key, lines]) => [key, sorted(lines)])),
  };
}

test("nothing is related to nothing", () => {
  expect(told(null)).toEqual({
    nodes: [[], [], [], []], origins: [], launches: [], kernels: [], buffers: [], firings: [[], [], [], []], lines: {},
  });
});

test("a node goes forward to its launch, its buffer and its lines of source", () => {
  expect(told({ kind: "node", stage: 0, ids: [5] })).toEqual({
    nodes: [[5], [5], [5], [7]], origins: [2], launches: [0], kernels: [0], buffers: [0],
    firings: [[], [0], [], [0, 1]], lines: { "0/c": [1, 2] },
  });
});

test("a node of the last graph goes back to what it was made from", () => {
  const found = told({ kind: "node", stage: 3, ids: [7] });
  expect(found.nodes).toEqual([[5], [5], [5], [7]]);
  expect(found.origins).toEqual([2]);
});

test("a line of the user's: what it wrote and what that became", () => {
  const found = told({ kind: "line", origin: 1 });
  expect(found.nodes).toEqual([[4], [1], [1], [1, 7]]);
  expect(found.origins).toEqual([1]);
  expect([found.launches, found.kernels]).toEqual([[0], [0]]);
  expect(found.firings[1]).toContain(0);
});

test("a firing: what it took out and put in", () => {
  const found = told({ kind: "firing", stage: 1, firing: 0 });
  expect(found.nodes.slice(0, 2)).toEqual([[4, 5], [1, 5]]);
  expect(found.firings).toEqual([[], [0], [], []]);
  expect(found.origins).toEqual([1, 2]);
});

test("a firing within a pass: through what lived between", () => {
  expect(told({ kind: "firing", stage: 3, firing: 0 }).nodes).toEqual([[5], [5], [5], [6, 7]]);
  expect(told({ kind: "node", stage: 3, ids: [6] }).nodes).toEqual([[5], [5], [5], [6, 7]]);
});

test("a rule: all of its firings", () => {
  expect(told({ kind: "rule", rule: "fuse" }).firings).toEqual([[], [], [], [0, 1]]);
  expect(told({ kind: "rule", rule: "toString" }).firings.flat()).toEqual([]);
});

test("a launch and its kernel: what they cover, and the lines of that", () => {
  const launch = told({ kind: "launch", launch: 0 });
  expect(launch).toEqual({
    nodes: [[4, 5], [5], [5], [7]],
    origins: [1, 2], launches: [0], kernels: [0], buffers: [0], firings: [[], [0], [], [0, 1]], lines: { "0/c": [1, 2] },
  });
  expect(told({ kind: "kernel", kernel: 0 })).toEqual(launch);
});

test("a line of a kernel: its nodes and the user's lines", () => {
  const found = told({ kind: "source", kernel: 0, dialect: "c", line: 2 });
  expect(found.nodes).toEqual([[5], [5], [5], [7]]);
  expect([found.origins, found.launches, found.lines]).toEqual([[2], [0], { "0/c": [2] }]);
  const empty = told({ kind: "source", kernel: 0, dialect: "c", line: 3 });
  expect([empty.kernels, empty.nodes.flat()]).toEqual([[0], []]);
});

test("a buffer: the nodes in it and the launches that use it", () => {
  const found = told({ kind: "buffer", buffer: 0 });
  expect([found.nodes[3], found.nodes[0], found.launches, found.buffers]).toEqual([[7], [5], [0], [0]]);
});

test("a scope: the nodes in its box", () => {
  const one = made(blocks(2)).runs[0]!;
  const found = related(one, { kind: "scope", stage: 0, path: "h1" });
  expect(found.nodes[0]!.size).toBe(6);
  expect(related(one, { kind: "scope", stage: 0, path: "h1.mlp" }).nodes[0]!.size).toBe(3);
});

test("what does not exist lights nothing", () => {
  const nowhere: Selected[] = [
    { kind: "node", stage: 9, ids: [1] }, { kind: "line", origin: 9 }, { kind: "firing", stage: 1, firing: 9 },
    { kind: "launch", launch: 9 }, { kind: "kernel", kernel: 9 }, { kind: "buffer", buffer: 9 },
    { kind: "source", kernel: 9, dialect: "c", line: 1 },
  ];
  for (const one of nowhere) expect(told(one).nodes.flat()).toEqual([]);
});
