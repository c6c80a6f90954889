// @vitest-environment jsdom
// What is lit for a selection made here or elsewhere.

import { expect, test } from "vitest";
import type { Look } from "../../src/graph/drawing";
import { levelAt } from "../../src/graph/lod";
import { dashes, litOf, marksOf } from "../../src/graph/marks";
import { Presence } from "../../src/data/presence";
import { query, search } from "../../src/data/query";
import { sceneOf } from "../../src/graph/scene";
import { Store, type Selected, type Side } from "../../src/data/store";
import { SIMPLE, blocks } from "../graphs";
import { made, type Made } from "../made";

function lit(what: Made, stage: number, selected: Selected, open: string[] = [], side: Side = "after") {
  const store = new Store(made(what), { stage });
  store.select(selected);
  const there = new Presence(store.run, store.place, side), { view } = there;
  const look: Look = { there, scene: sceneOf(view, new Set(open)), level: levelAt(1), overlay: null };
  const { strong, soft } = litOf(store, look);
  const name = (thing: number) => view.box(thing)?.path ?? store.run.id[view.thing.row[thing]!];
  return { strong: [...strong].map(name), soft: [...soft].map(name), paths: marksOf(store, look, 4) };
}

test("what is selected itself, and what it became or came from", () => {
  expect(lit(SIMPLE, 0, { kind: "node", stage: 0, ids: [5] })).toMatchObject({ strong: [5], soft: [] });
  expect(lit(SIMPLE, 3, { kind: "node", stage: 0, ids: [4] })).toMatchObject({ strong: [], soft: [1, 7] });
  expect(lit(SIMPLE, 3, { kind: "line", origin: 2 })).toMatchObject({ strong: [], soft: [7] });
});

test("a firing: what it took out and put in", () => {
  expect(lit(SIMPLE, 1, { kind: "firing", stage: 1, firing: 0 }, [], "both")).toMatchObject({ strong: [4, 5], soft: [1] });
  expect(lit(SIMPLE, 3, { kind: "firing", stage: 3, firing: 0 }).soft).toEqual([7]);
});

test("a scope is its box; a closed box is related to what is in it", () => {
  expect(lit(blocks(2), 0, { kind: "scope", stage: 0, path: "h1" })).toMatchObject({ strong: ["h1"], soft: [] });
  expect(lit(blocks(2), 0, { kind: "scope", stage: 0, path: "h1" }, ["h1"])).toMatchObject({ strong: ["h1"], soft: [] });
  expect(lit(blocks(2), 0, { kind: "node", stage: 0, ids: [13] })).toMatchObject({ strong: [], soft: ["h1"] });
  // A folded view lights what it is folded into.
  expect(lit(blocks(2), 0, { kind: "node", stage: 0, ids: [3] }, ["h0"])).toMatchObject({ strong: [], soft: [2] });
});

test("wires are followed through borders, what is read apart from what reads", () => {
  const { paths } = lit(blocks(2), 0, { kind: "node", stage: 0, ids: [10] }, ["h0", "h0.mlp", "h1"]);
  expect(paths.map((one) => one.getAttribute("class"))).toEqual(["ll-lit", "ll-read", "ll-halo", "ll-ring"]);
  expect(paths[1]!.getAttribute("d")!.match(/M/g)!.length).toBeGreaterThan(3);
});

test("what is very long has no more dashes than what is long", () => {
  expect(dashes(6, 3, 400 * 9)).toBe(null);
  expect(dashes(6, 3, 400 * 9 * 50)).toBe("stroke-dasharray:300 150");
});

test("a scalar is lit in every op that reads it, and each op says it", () => {
  const run = made({
    folded: [2],
    stages: [{ title: "written", nodes: [
      { id: 1, op: "input", name: "x" }, { id: 2, op: "constant", kind: "constant", label: "0.5" },
      { id: 3, op: "mul", reads: [1, 2], label: "mul × 0.5" }, { id: 4, op: "add", reads: [3, 2], label: "add + 0.5" },
    ] }],
  });
  const store = new Store(run), view = store.run.viewOf(0), there = new Presence(store.run, store.place, "after");
  const look = { scene: sceneOf(view, store.open), there, level: levelAt(1), overlay: null };
  store.select({ kind: "node", stage: 0, ids: [2] });
  const { strong, soft } = litOf(store, look);
  expect(strong.size).toBe(0);
  expect([...soft].map((thing) => store.run.label(view.thing.row[thing]!)).sort()).toEqual(["add + 0.5", "mul × 0.5"]);
  expect(there.counts).toEqual({ all: 4, folded: 0, scalars: 1 });
  // Who looks for it finds it, and the ops.
  const { exact, others } = search(store.run.lines(0), query(store.run, "0.5"));
  expect([...exact, ...others].map((row) => store.run.id[row]).sort()).toEqual([2, 3, 4]);
  expect(view.thingOf(store.run.rowsOf(2)[0]!)).toBe(view.thingOf(store.run.rowsOf(3)[0]!));
});
