// What a search finds beside nodes: each kind of thing by its name, and where that matched.

import { expect, test } from "vitest";
import { find, type Hit } from "../../src/data/finding";
import { Store } from "../../src/data/store";
import { blocks } from "../graphs";
import { made } from "../made";
import { RICH } from "../rich";

const on = (typed: string, stage = 1, run = RICH) => find(new Store(made(run), { stage }), typed);
const hits = (typed: string, ...more: [number?, typeof RICH?]) => on(typed, ...more).hits.map((one) => (typeof one === "number" ? "node" : `${one.kind} ${one.text}`));
const first = (typed: string) => on(typed).hits.find((one): one is Hit => typeof one !== "number")!;

test.each([
  ["fuse", "pass fuse"],
  ["add-zero", "rule add-zero"],
  ["product", "kernel product"],
  ["cell 1", "line cell 1, line 2: z = x + 0"],
  ["mul", "op mul"],
])("%s finds %s", (typed, hit) => expect(hits(typed)).toContain(hit));

test("scopes are found by their path", () => expect(hits("h1.m", 0, blocks(3))).toContain("scope h1.mlp"));

test("what is called just so comes first, nodes come last", () => {
  const found = hits("mul");
  expect([found[0], found.at(-1)]).toEqual(["op mul", "node"]);
});

test("a hit says where it matched: in its name, or in what is told of it", () => {
  expect(first("zero")).toMatchObject({ kind: "rule", text: "add-zero", spans: [[4, 8]], moreSpans: [] });
  expect(first("elementwise")).toMatchObject({ kind: "kernel", text: "product", spans: [], more: "elementwise: 1 op; 1 launch", moreSpans: [[0, 11]] });
});

test("going there: a rule where it fired, an op is all its nodes, a kernel is itself", () => {
  expect(on("fuse", 1).hits.filter((one) => typeof one !== "number").map(({ kind, stage, what }) => [kind, stage, what])).toEqual([["pass", 3, null], ["rule", 3, { kind: "rule", rule: "fuse" }]]);
  expect(first("mul").what).toMatchObject({ kind: "node", stage: 1 });
  expect(first("product").what).toEqual({ kind: "kernel", kernel: 0 });
});

test("fields and names ask for nodes alone", () => {
  for (const typed of ["op:mul", "%4", "rule:add-zero"]) expect(hits(typed).filter((one) => one !== "node")).toEqual([]);
});

test("what a pass has removed is found where the graph before can be seen, after the rest", () => {
  const ops = (typed: string, stage: number, firing = -1, hasBefore = true) => {
    const store = new Store(made(RICH), { stage, firing }), { rows, removed } = find(store, typed, hasBefore);
    return rows.map((row) => `${store.run.op(row)} ${removed.has(row) ? store.run.homeOf(row, stage) : "here"}`);
  };
  expect(ops("add", 1)).toEqual(["add 0"]);
  expect(ops("add", 1, -1, false)).toEqual([]);
  expect(ops("add", 2)).toEqual([]); // it went earlier
  expect(ops("/mul|constant/", 1)).toEqual(["mul here", "constant 0"]);
  // After one of two firings the constant is still there.
  expect(ops("/add|constant/", 1, 1)).toEqual(["constant here", "add 0"]);
  expect(find(new Store(made(RICH), { stage: 1 }), "add", true).nodes).toBe(5);
});
