// What of a union is there before, between and after the firings of a pass.

import { expect, test } from "vitest";
import { Presence } from "../../src/data/presence";
import type { Side } from "../../src/data/store";
import { ADDED, REMOVED, SAME } from "../../src/data/view";
import { SIMPLE, blocks } from "../graphs";
import { made } from "../made";

const run = made(SIMPLE).runs[0]!;

function told(stage: number, firing: number, side: Side) {
  const there = new Presence(run, { run: 0, stage, firing }, side), { view } = there;
  const things: string[] = [], wires: string[] = [];
  for (let thing = 0; thing < view.things; thing++) if (there.has(thing)) things.push(`${view.label(thing)}${" +-~."[there.status(thing)]}`.trim());
  for (let wire = 0; wire < view.wire.source.length; wire++)
    if (there.hasWire(wire, 0)) wires.push(`${view.label(view.wire.source[wire]!)}>${view.label(view.wire.target[wire]!)}`);
  return `${things.join(" ")} | ${wires.sort().join(" ")}`;
}

test("a graph as written is all there", () => {
  expect(told(0, -1, "after")).toBe("x y constant add mul | add>mul constant>add x>add y>mul");
});

test("before, after, and both as one", () => {
  expect(told(1, -1, "before")).toBe("x y constant- add- mul~ | add>mul constant>add x>add y>mul");
  expect(told(1, -1, "after")).toBe("x y mul~ | x>mul y>mul");
  expect(told(1, -1, "both")).toBe("x y constant- add- mul~ | add>mul constant>add x>add x>mul y>mul");
});

test("between firings nodes read what they read then", () => {
  expect(told(1, 0, "after")).toBe("x y constant add mul | add>mul constant>add x>add y>mul");
  expect(told(1, 1, "after")).toBe("x y constant mul~ | x>mul y>mul");
  expect(told(1, 2, "after")).toBe(told(1, -1, "after"));
});

test("what only a later firing changes is not told as changed yet", () => {
  expect(told(1, 0, "before")).toBe("x y constant add mul | add>mul constant>add x>add y>mul");
  expect(told(1, 1, "before")).toBe("x y constant add- mul~ | add>mul constant>add x>add y>mul");
  expect(told(1, 1, "both")).toBe("x y constant add- mul~ | add>mul constant>add x>add x>mul y>mul");
  const wires = (firing: number): Record<string, number> => {
    const there = new Presence(run, { run: 0, stage: 1, firing }, "both"), { view } = there;
    return Object.fromEntries([...view.wire.source.keys()].map((wire) => [`${view.label(view.wire.source[wire]!)}>${view.label(view.wire.target[wire]!)}`, there.wireStatus(wire, 0)]));
  };
  expect(wires(0)).toMatchObject({ "x>add": SAME, "add>mul": SAME, "y>mul": SAME });
  expect(wires(1)).toMatchObject({ "x>add": REMOVED, "add>mul": REMOVED, "x>mul": ADDED, "y>mul": SAME });
});

test("what lives within a pass alone is only there between", () => {
  expect(told(3, -1, "before")).toBe("x y mul- | x>mul y>mul");
  expect(told(3, 1, "after")).toBe("x y half. | x>half y>half");
  expect(told(3, -1, "after")).toBe("x y call+ | x>call y>call");
  expect(told(3, -1, "both")).toBe("x y mul- call+ | x>call x>mul y>call y>mul");
});

test("a stage without effect shows the one before it, and nothing as new", () => {
  expect(told(2, -1, "after")).toBe("x y mul | x>mul y>mul");
  expect(told(2, -1, "before")).toBe("x y mul | x>mul y>mul");
});

test("readers read through folded views, boxes are there as long as something in them is", () => {
  const one = made(blocks(2)).runs[0]!, there = new Presence(one, { run: 0, stage: 0, firing: -1 }, "after");
  const frames = [...Array(there.view.frames).keys()];
  for (const frame of frames)
    for (let wire = there.view.frame.wires[frame]!; wire < there.view.frame.wires[frame + 1]!; wire++) expect(there.hasWire(wire, frame)).toBe(true);
  expect(there.has(there.view.thingAt("h1.mlp"))).toBe(true);
  expect(there.row(there.view.thingAt("h1.mlp"))).toBe(-1);
  expect(there.counts).toEqual({ all: 19, folded: 6, scalars: 0 });
});

test("a box counts what is in it at each side, and what of that changed", () => {
  const node = (id: number, op: string, ...reads: number[]) => ({ id, op, reads, scope: id > 1 ? "a" : "" });
  const one = made({
    stages: [
      { title: "written", nodes: [node(1, "input"), node(2, "exp2", 1), node(3, "sum", 2), node(4, "div", 2, 3)] },
      { title: "recognise", nodes: [node(1, "input"), node(5, "call", 1)], firings: [{ rule: "softmax", gone: [node(2, "exp2", 1), node(3, "sum", 2), node(4, "div", 2, 3)], fresh: [node(5, "call", 1)] }] },
    ],
  }).runs[0]!;
  const box = (side: Side) => {
    const there = new Presence(one, { run: 0, stage: 1, firing: -1 }, side), { nodes, added, removed } = there.inBox(there.view.thingAt("a"));
    return { nodes, added, removed };
  };
  expect(box("before")).toEqual({ nodes: 3, added: 0, removed: 3 });
  expect(box("after")).toEqual({ nodes: 1, added: 1, removed: 0 });
  expect(box("both")).toEqual({ nodes: 4, added: 1, removed: 3 });
});

test("of a graph alone a box has all of its rows", () => {
  const one = made(blocks(2)).runs[0]!, there = new Presence(one, { run: 0, stage: 0, firing: -1 }, "after"), { view } = there;
  const closed = view.boxes.map(({ path }) => there.inBox(view.thingAt(path)).nodes);
  const inside = view.boxes.map(({ path }) => [...view.rowsIn(view.thingAt(path))].length);
  expect(closed).toEqual(inside);
});
