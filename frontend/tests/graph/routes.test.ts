// Along wires from thing to thing, through borders of open boxes.

import { expect, test } from "vitest";
import { Presence } from "../../src/data/presence";
import { beside, route } from "../../src/graph/routes";
import { sceneOf } from "../../src/graph/scene";
import { SIMPLE, blocks } from "../graphs";
import { made } from "../made";

const run = made(blocks(2)).runs[0]!;
const there = new Presence(run, { run: 0, stage: 0, firing: -1 }, "after"), { view } = there;
const thing = (id: number) => view.thingOf(run.rowsOf(id)[0]!);
const names = (things: readonly number[]) => things.map((one) => view.box(one)?.path ?? run.name(view.thing.row[one]!)).sort();

test("to what a node reads and what reads it, across borders", () => {
  const scene = sceneOf(view, new Set(view.boxes.map(({ path }) => path)));
  expect(names(route(scene, there, thing(4), "up").things)).toEqual(["2", "tokens"]);
  expect(names(route(scene, there, thing(4), "down").things)).toEqual(["5"]);
  // The last of a block goes to the next block.
  expect(names(route(scene, there, thing(10), "down").things)).toEqual(["11", "13", "16", "19"]);
  expect(route(scene, there, thing(10), "down").wires.length).toBeGreaterThan(5);
});

test("closed boxes stand for what is in them", () => {
  const scene = sceneOf(view, new Set(["h0"]));
  expect(names(route(scene, there, thing(2), "up").things)).toEqual(["tokens"]);
  expect(names(route(scene, there, thing(2), "down").things)).toEqual(["h0.mlp"]);
  expect(names(route(scene, there, view.thingAt("h1"), "up").things)).toEqual(["h0.mlp"]);
});

test("neighbours in the row", () => {
  const one = made(SIMPLE).runs[0]!, all = new Presence(one, { run: 0, stage: 0, firing: -1 }, "after"), scene = sceneOf(all.view, new Set());
  expect([beside(scene, all, 0, "right"), beside(scene, all, 1, "right"), beside(scene, all, 2, "right")]).toEqual([1, 2, -1]);
  expect(beside(scene, all, 2, "left")).toBe(1);
});
