// Things of a picture in words.

import { expect, test } from "vitest";
import type { Look } from "../../src/graph/drawing";
import { levelAt } from "../../src/graph/lod";
import { amountOf, nameOf, toldOf } from "../../src/graph/naming";
import { Presence } from "../../src/data/presence";
import { sceneOf } from "../../src/graph/scene";
import type { Side } from "../../src/data/store";
import { SIMPLE, blocks } from "../graphs";
import { made, type Made } from "../made";

function look(what: Made, stage: number, open: string[] = [], side: Side = "after"): Look {
  const there = new Presence(made(what).runs[0]!, { run: 0, stage, firing: -1 }, side);
  return { there, scene: sceneOf(there.view, new Set(open)), level: levelAt(1), overlay: null };
}
const thing = ({ there }: Look, id: number) => there.view.thingOf(there.run.rowsOf(id)[0]!);

test("a node says what it is, what it reads, and what became of it", () => {
  const first = look(SIMPLE, 0), both = look(SIMPLE, 1, [], "both");
  expect(nameOf(first, thing(first, 1))).toBe("x input f32[4]");
  expect(nameOf(first, thing(first, 4))).toBe("add %4 f32[4], reads x and constant");
  expect(nameOf(first, thing(first, 5))).toBe("mul %5 f32[4], reads %4 and y, retrieved");
  expect(nameOf(both, thing(both, 4))).toBe("add %4 f32[4], reads x and constant, removed");
  expect(nameOf(both, thing(both, 5))).toBe("mul %5 f32[4], reads x and y, retrieved, rewired");
});

test("what is read through folded views is named as what is behind them", () => {
  const one = look(blocks(1), 0, ["h0", "h0.mlp"]);
  expect(nameOf(one, thing(one, 4))).toBe("mul %4 f32[4], reads %2 and tokens");
});

test("a box says whether it is open, and how much is in it", () => {
  const one = look(blocks(1), 0, ["h0"]);
  expect(nameOf(one, one.scene.view.thingAt("h0"))).toBe("box h0, open, 6 nodes");
  expect(toldOf(one, one.scene.view.thingAt("h0.mlp"))).toBe("box mlp, closed, 3 nodes\ndouble click: open or close");
});

test("the pointer is told everything", () => {
  const last = look(SIMPLE, 3);
  expect(toldOf({ ...last, overlay: { name: "time", legend: [], heat: () => 1, text: () => "3 ms" } }, thing(last, 7))).toBe(
    "%7 = call(%1, %2) : f32[4]\na launch of a kernel\nretrieved, added\ncell 2, line 1: z * y\nmade by fuse\ntime: 3 ms",
  );
});

test("how much is shown, and where the rest is", () => {
  expect(amountOf(look(SIMPLE, 0))).toBe("5 nodes");
  expect(amountOf(look(SIMPLE, 1, [], "both"))).toBe("5 nodes");
  expect(amountOf(look(blocks(2), 0))).toBe("1 of 19 nodes; 6 views in the edges, 12 in closed boxes");
  expect(amountOf(look(blocks(2), 0, ["h0", "h0.mlp", "h1", "h1.mlp"]))).toBe("13 of 19 nodes; 6 views in the edges");
});
