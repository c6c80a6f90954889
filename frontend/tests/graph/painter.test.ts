// @vitest-environment jsdom
// Parts are drawn when they come into sight, kept while they stay the same, and taken off when far away.

import { beforeEach, expect, test, vi } from "vitest";
import { levelAt } from "../../src/graph/lod";
import { painter, type Painter, type Sight } from "../../src/graph/painter";
import { Presence } from "../../src/data/presence";
import { sceneOf } from "../../src/graph/scene";
import { SIMPLE, blocks } from "../graphs";
import { made } from "../made";

let sight: Sight, paint: Painter;
const levelled = vi.fn();

function begin(run = made(blocks(3)).runs[0]!, stage = 0, open: string[] = []): void {
  const there = new Presence(run, { run: 0, stage, firing: -1 }, "after");
  sight = {
    there, scene: sceneOf(there.view, new Set(open)), level: levelAt(1), overlay: null,
    camera: { x: 0, y: 0, scale: 1 }, size: { width: 600, height: 400 },
  };
  paint = painter(sight, levelled);
  paint.move();
  paint.flush();
}
const elements = () => [...paint.sheet.querySelectorAll("svg > g > g:first-child > g > g")];
const look = (x: number, y: number, scale: number) => {
  sight.camera = { x, y, scale };
  paint.move();
  paint.flush();
};

beforeEach(() => levelled.mockClear());

test("panning moves the sheet and paints nothing, until its border comes into sight", () => {
  begin();
  const world = paint.sheet.querySelector("svg > g")!, before = world.getAttribute("transform"), drawn = elements();
  look(-250, 100, 1);
  expect(paint.sheet.style.transform).toBe("translate(-250px,100px)");
  expect(world.getAttribute("transform")).toBe(before);
  expect(elements()).toEqual(drawn);
  look(-310, 100, 1);
  expect(paint.sheet.style.transform).toBe("translate(0px,0px)");
  expect(world.getAttribute("transform")).toBe("matrix(1 0 0 1 -10 400)");
  expect(elements()).toEqual(drawn);
});

test("the title of a box that begins left of the screen begins where one sees it", () => {
  begin(undefined, 0, ["h0"]);
  const title = paint.sheet.querySelector(".ll-title")!, rect = sight.scene.rect(sight.scene.view.thingAt("h0"))!;
  const at = () => Number(title.getAttribute("x")) + Number(/\((\S+)/.exec(title.getAttribute("transform")!)![1]) + sight.camera.x;
  const moved = (x: number) => (look(x, 0, 1), paint.name(), at());
  expect(moved(0)).toBeCloseTo(rect.x + 10);
  expect(moved(-rect.x - 20)).toBeCloseTo(6);
  // No further than its box goes.
  expect(moved(-rect.x - rect.width)).toBeLessThan(0);
});

test("a title that the upper edge would cut is whole, and one that is above it stays there", () => {
  begin(undefined, 0, ["h0"]);
  const title = paint.sheet.querySelector(".ll-title")!, rect = sight.scene.rect(sight.scene.view.thingAt("h0"))!;
  const at = () => Number(title.getAttribute("y")) + Number(/ (\S+)\)/.exec(title.getAttribute("transform")!)![1]) + sight.camera.y;
  const moved = (y: number) => (look(0, y, 1), paint.name(), at());
  expect(moved(0)).toBeCloseTo(rect.y + 17, 0);
  expect(moved(5 - rect.y - 17)).toBeCloseTo(14, 0);
  expect(moved(-5 - rect.y - 17)).toBeCloseTo(-5, 0);
});

test("zooming stretches what is painted; at a pause it is painted anew", () => {
  vi.useFakeTimers();
  begin();
  const world = paint.sheet.querySelector("svg > g")!, [drawn] = elements(), before = world.getAttribute("transform");
  const to = (x: number, y: number, scale: number) => {
    sight.camera = { x, y, scale };
    paint.move();
  };
  to(-30, -20, 1.1);
  expect(paint.sheet.style.transform).toBe("translate(-30px,-20px) scale(1.1)");
  vi.advanceTimersByTime(60);
  to(-60, -40, 0.75);
  expect(paint.sheet.style.transform).toBe("translate(-60px,-40px) scale(0.75)");
  vi.advanceTimersByTime(60);
  expect([world.getAttribute("transform"), elements()[0]]).toEqual([before, drawn]);
  vi.advanceTimersByTime(60);
  expect(paint.sheet.style.transform).toBe("translate(0px,0px)");
  expect(world.getAttribute("transform")).toBe("matrix(0.75 0 0 0.75 240 260)");
  // What would show that the sheet ends, or be much too coarse, is painted at once.
  to(0, 0, 0.3);
  expect(world.getAttribute("transform")).toBe("matrix(0.3 0 0 0.3 300 300)");
  to(0, 0, 1);
  expect(world.getAttribute("transform")).toBe("matrix(1 0 0 1 300 300)");
  paint.dispose();
  vi.useRealTimers();
});

test("what would be a few pixels large is a box without what is in it", () => {
  begin(undefined, 0, ["h0", "h1", "h2"]);
  look(0, 0, 0.2);
  const count = elements().length;
  expect(count).toBeGreaterThan(3);
  look(0, 0, 0.02);
  expect(elements().length).toBeLessThan(count);
  look(0, 0, 0.2);
  expect(elements().length).toBe(count);
});

test("another level draws anew and says so", () => {
  begin();
  const [drawn] = elements();
  look(0, 0, 0.99);
  expect(elements()).toEqual([drawn]);
  expect(levelled).not.toHaveBeenCalled();
  look(0, 0, 0.2);
  expect(elements()).not.toEqual([drawn]);
  expect(levelled).toHaveBeenCalledTimes(1);
});

test("opening a box draws what changed, and only moves the rest", () => {
  begin(undefined, 0, ["h0", "h1", "h2"]);
  look(0, 0, 0.2);
  const before = elements();
  sight.scene = sceneOf(sight.there.view, new Set(["h0", "h1", "h2", "h0.mlp"]));
  paint.draw();
  paint.flush();
  const after = elements();
  expect(after.length).toBe(before.length + 1);
  // Blocks h1 and h2 are as they were; what they stand in is not.
  expect(after.filter((one) => before.includes(one)).length).toBe(2);
});

test("a firing draws only parts in which something came or went", () => {
  const run = made(SIMPLE).runs[0]!;
  begin(run, 1);
  const [drawn] = elements();
  sight.there = new Presence(run, { run: 0, stage: 1, firing: 2 }, "after");
  paint.draw();
  paint.flush();
  expect(elements()).toEqual([drawn]);
  sight.there = new Presence(run, { run: 0, stage: 1, firing: 1 }, "after");
  paint.draw();
  paint.flush();
  expect(elements()[0]).not.toBe(drawn);
  expect(elements().length).toBe(1);
});

test("what is far away is taken off", () => {
  begin();
  expect(paint.isEmpty).toBe(false);
  look(-30000, 0, 1);
  expect(paint.isEmpty).toBe(true);
  look(0, 0, 1);
  expect(elements().length).toBe(1);
});

test("nothing is drawn without a size", () => {
  begin();
  look(-30000, 0, 1);
  sight.size = { width: 0, height: 0 };
  look(0, 0, 1);
  expect(paint.isEmpty).toBe(true);
});
