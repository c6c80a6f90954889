// @vitest-environment jsdom
// The whole scene, small: there when it helps, and a way to go elsewhere.

import { expect, test, vi } from "vitest";
import { minimap } from "../../src/graph/minimap";
import { Presence } from "../../src/data/presence";
import { sceneOf } from "../../src/graph/scene";
import { SIMPLE } from "../graphs";
import { made } from "../made";

const run = made(SIMPLE).runs[0]!, there = new Presence(run, { run: 0, stage: 1, firing: -1 }, "after"), scene = sceneOf(there.view, new Set());
const screen = { width: 600, height: 400 };

test("it is there where one sees a small part of a scene", () => {
  const map = minimap(() => undefined);
  map.show(scene, there);
  map.look({ x: 0, y: 0, scale: 1 }, screen);
  expect(map.element.style.display).toBe("none");
  map.look({ x: 0, y: 0, scale: 4 }, screen);
  map.stand([], screen);
  expect(map.element.style.display).toBe("");
  map.look({ x: 0, y: 0, scale: 4 }, { width: 200, height: 400 });
  expect(map.element.style.display).toBe("none");
});

test("it covers nothing that has words: it stands aside, shrinks, or goes", () => {
  const map = minimap(() => undefined), { style } = map.element;
  map.show(scene, there);
  map.look({ x: 0, y: 0, scale: 4 }, screen);
  const wide = (): number => Number(map.element.querySelector("svg")!.getAttribute("width"));
  const whole = wide(), all = { left: 0, top: 0, right: 600, bottom: 400 };
  const right = { ...all, left: 300 }, below = { ...all, top: 200 };
  const at = (...taken: (typeof all)[]) => (map.stand(taken, screen), [style.display || "there", wide() / whole, parseFloat(style.left) > 300, parseFloat(style.top) > 200]);
  expect(at()).toEqual(["there", 1, true, true]);
  expect(at(right)).toEqual(["there", 1, false, true]);
  expect(at(right, below)).toEqual(["there", 1, false, false]);
  // So much room is left above.
  const high = Number(map.element.querySelector("svg")!.getAttribute("height"));
  expect(at({ ...all, top: 0.6 * high + 20 })).toEqual(["there", expect.closeTo(0.6), true, false]);
  expect(at(all)[0]).toBe("none");
  // While one goes on it stays as it is, and comes back at rest.
  map.look({ x: 9, y: 0, scale: 4 }, screen);
  expect(style.display).toBe("none");
  expect(at()).toEqual(["there", 1, true, true]);
});

test("it shows what is there at the place, and a frame around what is seen", () => {
  const map = minimap(() => undefined);
  map.show(scene, there);
  expect(map.element.querySelectorAll("path")[1]!.getAttribute("d")!.match(/M/g)!.length).toBe(3);
  map.look({ x: -scene.width * 2, y: 0, scale: 4 }, screen);
  const scale = Number(map.element.querySelector("svg")!.getAttribute("width")) / scene.width;
  expect(map.element.querySelector("div")!.style.transform).toBe(`translate(${Math.round(5 * scale * scene.width) / 10}px,0px)`);
});

test("pressing and dragging in it goes there", () => {
  const go = vi.fn(), map = minimap(go);
  map.show(scene, there);
  const scale = Number(map.element.querySelector("svg")!.getAttribute("width")) / scene.width;
  const at = (type: string, clientX: number) => map.element.dispatchEvent(new PointerEvent(type, { pointerId: 1, clientX, clientY: 10 }));
  at("pointermove", 20);
  expect(go).not.toHaveBeenCalled();
  at("pointerdown", 20);
  at("pointermove", 40);
  at("pointerup", 40);
  at("pointermove", 60);
  expect(go.mock.calls.map(([x]) => Math.round(x * scale))).toEqual([20, 40]);
});
