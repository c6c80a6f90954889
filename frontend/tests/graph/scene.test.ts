// Boxes that are opened in place: nothing lies over another, wires end where they should.

import { expect, test } from "vitest";
import { BOTTOM, SIDE, TOP, portOf, sceneOf, type Rect, type Scene } from "../../src/graph/scene";
import type { View } from "../../src/data/view";
import { SIMPLE, blocks } from "../graphs";
import { made } from "../made";

const view = made(blocks(3)).runs[0]!.viewOf(0);
const all = new Set(view.boxes.map(({ path }) => path));
const at = (scene: Scene, id: number): Rect => scene.rect(scene.view.thingOf(scene.view.run.rowsOf(id)[0]!))!;

/** Everything that has to hold of a scene, whatever is open. */
function holds(scene: Scene): void {
  const { view } = scene;
  for (const { placement, frame, x, y } of scene.frames) {
    const first = view.frame.things[frame]!, count = placement.rects.length / 4;
    for (let one = 0; one < count; one++) {
      const a = placement.rect(one);
      expect(a.x).toBeGreaterThanOrEqual(-0.01);
      expect(a.x + a.width).toBeLessThanOrEqual(placement.width + 0.01);
      expect(a.y + a.height).toBeLessThanOrEqual(placement.height + 0.01);
      for (let two = one + 1; two < count; two++) {
        const b = placement.rect(two);
        const apart = a.x + a.width <= b.x + 0.01 || b.x + b.width <= a.x + 0.01 || a.y + a.height <= b.y + 0.01 || b.y + b.height <= a.y + 0.01;
        expect(apart, `${view.label(first + one)} and ${view.label(first + two)}`).toBe(true);
      }
    }
    for (let place = 0; place < placement.wires; place++) {
      const wire = view.frame.wires[frame]! + place, course = placement.course(place);
      for (const [end, px, py] of [[view.wire.source[wire]!, course[1]!, course[2]!], [view.wire.target[wire]!, course.at(-2)!, course.at(-1)!]] as const) {
        if (end < 0) {
          expect(px).toBeCloseTo(placement.ports[-1 - end]!, 1);
          continue;
        }
        const rect = placement.rect(end);
        expect(Math.min(Math.abs(py - rect.y), Math.abs(py - rect.y - rect.height))).toBeLessThan(0.02);
        expect(px).toBeGreaterThanOrEqual(rect.x - 0.01);
        expect(px).toBeLessThanOrEqual(rect.x + rect.width + 0.01);
        const inner = placement.inner.get(end);
        if (!inner) continue;
        // It goes on from a port of the same value, straight below.
        const opened = view.thing.opens[first + end]!, isTop = Math.abs(py - rect.y) < 0.02;
        const port = portOf(view, opened, view.wire.carried[wire]!, view.wire.status[wire]!, isTop ? 0 : 1);
        expect(x + px).toBeCloseTo(scene.placed(opened)!.x + inner.ports[port]!, 1);
        expect(y).toBeDefined();
      }
    }
  }
}

test("all closed is as it was sent", () => {
  const scene = sceneOf(view, new Set());
  expect(scene.frames.length).toBe(1);
  expect(scene.count).toBe(4);
  expect([scene.width, scene.height]).toEqual([view.layout.size[0], view.layout.size[1]]);
  expect(at(scene, 1)).toEqual({ x: 0, y: 2, width: 100, height: 40 });
  holds(scene);
});

test("an open box has room for what is in it, and pushes the rest away", () => {
  const before = sceneOf(view, new Set()), scene = sceneOf(view, new Set(["h0"]));
  const box = scene.rect(view.thingAt("h0"))!, inner = scene.frames[1]!;
  expect(box.width).toBeCloseTo(Math.max(150, inner.placement.width + 2 * SIDE), 3);
  expect(box.height).toBeCloseTo(inner.placement.height + TOP + BOTTOM, 3);
  expect(inner.y).toBeCloseTo(box.y + TOP, 3);
  expect(at(scene, 1).y).toBe(at(before, 1).y);
  const next = (one: Scene) => one.rect(view.thingAt("h1"))!;
  // With some more room, in which wires lean.
  expect(next(scene).y - next(before).y).toBeGreaterThanOrEqual(box.height - 44 - 0.01);
  expect(next(scene).y - next(before).y).toBeLessThan(box.height - 44 + 2 * 44);
  expect(next(scene).height).toBe(44);
  holds(scene);
});

test("all open, at whatever order", () => {
  const scene = sceneOf(view, all);
  holds(scene);
  expect(scene.frames.length).toBe(7);
  expect(sceneOf(view, new Set([...all].reverse())).root).toBe(scene.root);
});

test("many shapes of graphs hold, with any boxes open", () => {
  for (let seed = 1; seed < 25; seed++) {
    let state = seed;
    const random = (below: number) => (state = (state * 48271) % 2147483647) % below;
    const nodes = Array.from({ length: 12 + random(30) }, (_, at) => ({
      id: at + 1, op: at ? "mul" : "input", scope: ["", "a", "a.b", "a.b", "c", "c.d"][random(6)]!,
      reads: at ? [1 + random(at), 1 + random(at)] : [],
    }));
    const one = made({ stages: [{ title: "x", nodes }] }).runs[0]!.viewOf(0);
    holds(sceneOf(one, new Set(one.boxes.map(({ path }) => path).filter(() => random(3) > 0))));
  }
});

test("what did not change is the same object, also among equal frames", () => {
  const scene = sceneOf(view, all), less = new Set(all);
  less.delete("h2.mlp");
  const after = sceneOf(view, less);
  const placement = (one: Scene, path: string) => one.placed(view.thing.opens[view.thingAt(path)]!)?.placement;
  expect(placement(after, "h0")).toBe(placement(scene, "h0"));
  expect(placement(after, "h0.mlp")).toBe(placement(after, "h1.mlp"));
  expect(placement(after, "h2")).not.toBe(placement(scene, "h2"));
  expect(placement(after, "h2.mlp")).toBeUndefined();
});

test("what stands for a row", () => {
  const row = view.run.rowsOf(4)[0]!;
  const path = (scene: Scene) => view.box(scene.standing(row))?.path;
  expect(path(sceneOf(view, new Set()))).toBe("h0");
  expect(path(sceneOf(view, new Set(["h0"])))).toBe("h0.mlp");
  expect(path(sceneOf(view, new Set(["h0.mlp"])))).toBe("h0");
  expect(sceneOf(view, all).standing(row)).toBe(view.thingOf(row));
});

test("the innermost thing at a point, and all within a rectangle", () => {
  const scene = sceneOf(view, all), inner = at(scene, 4), box = scene.rect(view.thingAt("h0"))!;
  expect(scene.hit(inner.x + 3, inner.y + 3)).toBe(view.thingOf(view.run.rowsOf(4)[0]!));
  expect(scene.hit(box.x + 3, box.y + 3)).toBe(view.thingAt("h0"));
  expect(scene.hit(-50, -50)).toBe(-1);
  const found = scene.within({ x: inner.x, y: inner.y, width: 1, height: 1 });
  expect(found).toEqual(expect.arrayContaining([view.thingAt("h0"), view.thingAt("h0.mlp"), view.thingOf(view.run.rowsOf(4)[0]!)]));
  expect(found.length).toBe(3);
  expect(scene.within({ x: -100, y: -100, width: 1e5, height: 1e6 }).length).toBe(scene.count);
});

test("parts have every thing once and every wire whole", () => {
  const long = made(blocks(40, 1)).runs[0]!.viewOf(0);
  const everything = sceneOf(long, new Set(long.boxes.map(({ path }) => path)));
  expect(everything.root.parts.length).toBeGreaterThan(3);
  for (const { placement } of everything.frames) {
    const things = placement.parts.flatMap((part) => part.things).sort((a, b) => a - b);
    expect(things).toEqual(Array.from({ length: placement.rects.length / 4 }, (_, at) => at));
    for (let wire = 0; wire < placement.wires; wire++) {
      const pieces = placement.parts.flatMap((part) => part.pieces).filter((piece) => piece.wire === wire);
      expect([pieces.filter((one) => one.isStart).length, pieces.filter((one) => one.isEnd).length]).toEqual([1, 1]);
      const course = placement.course(wire);
      expect([...pieces.find((one) => one.isStart)!.course.slice(1, 3)]).toEqual([...course.slice(1, 3)]);
      expect([...pieces.find((one) => one.isEnd)!.course.slice(-2)]).toEqual([...course.slice(-2)]);
    }
  }
});

test("a long wire is cut, so that no part reaches across everything", () => {
  const nodes = Array.from({ length: 120 }, (_, at) => ({ id: at + 1, op: at ? "mul" : "input", reads: at ? [at, ...(at === 119 ? [1] : [])] : [] }));
  const scene = sceneOf(made({ stages: [{ title: "x", nodes }] }).runs[0]!.viewOf(0), new Set());
  expect(scene.height).toBeGreaterThan(8000);
  for (const part of scene.root.parts) expect(part.bottom - part.top).toBeLessThan(6000);
});

test("each graph of a pass alone has places of its own, and none for what it lacks", () => {
  const run = made(SIMPLE).runs[0]!, view = run.viewOf(1), scenes = (["both", "before", "after"] as const).map((places) => sceneOf(view, new Set(), places));
  const [both, before, after] = scenes as [Scene, Scene, Scene];
  const seen = (scene: Scene) => [...Array(view.things).keys()].filter((thing) => scene.isVisible(thing));
  const ids = (scene: Scene) => seen(scene).map((thing) => run.id[view.thing.row[thing]!]!).sort();
  expect(ids(before)).toEqual(Array.from(run.lines(0), (row) => run.id[row]!).sort());
  expect(ids(after)).toEqual(Array.from(run.lines(1), (row) => run.id[row]!).sort());
  expect(after.height).toBeLessThan(both.height);
  for (const scene of [before, after]) {
    const gone = seen(both).filter((thing) => !scene.isVisible(thing));
    expect(gone.map((thing) => scene.rect(thing))).toEqual(gone.map(() => null));
    expect(scene.within({ x: -1, y: -1, width: 1e5, height: 1e5 }).sort((a, b) => a - b)).toEqual(seen(scene));
    for (const part of scene.root.parts) for (const { wire } of part.pieces) expect([view.wire.source[wire]!, view.wire.target[wire]!].every((end) => scene.isVisible(end))).toBe(true);
  }
});

test("a union has the things of both graphs at one place each", () => {
  const union: View = made(SIMPLE).runs[0]!.viewOf(1);
  holds(sceneOf(union, new Set()));
  expect(union.things).toBe(5);
});

test("equal blocks share what they look like", () => {
  const big = made(blocks(150, 5)).runs[0]!.viewOf(0);
  const open = new Set(big.boxes.map(({ path }) => path));
  const scene = sceneOf(big, open);
  expect(scene.frames.length).toBe(301);
  expect(new Set(scene.frames.map(({ placement }) => placement)).size).toBeLessThan(8);
});
