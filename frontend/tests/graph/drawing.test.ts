// @vitest-environment jsdom
// One part of a frame: what is drawn at which level of detail.

import { expect, test } from "vitest";
import { drawn, shownOf, type Look } from "../../src/graph/drawing";
import { levelAt } from "../../src/graph/lod";
import { Presence } from "../../src/data/presence";
import { sceneOf } from "../../src/graph/scene";
import type { Overlay } from "../../src/data/store";
import { blocks } from "../graphs";
import { made } from "../made";

const run = made(blocks(2)).runs[0]!;

function draw(scale: number, frame = 0, overlay: Overlay | null = null, open = ["h0", "h1"], of = run) {
  const there = new Presence(of, { run: 0, stage: 0, firing: -1 }, "after"), scene = sceneOf(there.view, new Set(open));
  const look: Look = { there, scene, level: levelAt(scale), overlay }, placed = scene.frames[frame]!, [cell] = placed.placement.parts;
  return drawn(look, placed, cell!, shownOf(look, placed, cell!));
}
const texts = (element: Element) => [...element.querySelectorAll("text")].map((one) => one.textContent);

test("near by there are labels and types, a little further away a name each, then shapes", () => {
  expect(texts(draw(1, 1).element)).toEqual(["expand", "expand", "expand", "exp2%2", "f32[4]", "exp2%5", "f32[4]", "exp2%8", "f32[4]", "mlp", "3 nodes"]);
  expect(texts(draw(0.5, 1).element)).toEqual(["exp2", "exp2", "exp2", "mlp"]);
  const far = draw(0.2, 1);
  expect(far.element.querySelectorAll("path").length).toBe(3);
  expect(far.things.size).toBe(0);
});

test("far out there are names of boxes where they have room", () => {
  expect(texts(draw(0.28, 1).element)).toEqual(["mlp"]);
  expect(texts(draw(0.05, 1).element)).toEqual([]);
  expect(draw(0.2, 1).title!.textContent).toBe("h0");
  expect(draw(0.01, 1).title).toBeNull();
});

test("wires end in arrows at things, and go on at the borders of open boxes", () => {
  const { element } = draw(1, 0), [tips] = element.querySelectorAll('path[fill="var(--ll-edge)"]');
  expect(tips).toBeUndefined();
  const inner = draw(1, 1).element;
  expect(inner.querySelector('path[fill="var(--ll-edge)"]')!.getAttribute("d")!.match(/M/g)!.length).toBeGreaterThan(3);
  // From the border of the box, 30 above what is in it.
  expect(inner.querySelector(".ll-wire")!.getAttribute("d")).toMatch(/^M[\d.]+ -30V0/);
});

test("an overlay tints far out as well, in few paths", () => {
  const overlay: Overlay = { name: "x", legend: [], heat: (row) => (row % 2 ? 1 : 0.5), text: () => "", inBox: () => ({ heat: null, text: "", tint: "red" }) };
  const fills = [...draw(0.2, 1, overlay).element.querySelectorAll("path[fill-opacity]")].map((one) => one.getAttribute("fill"));
  expect(fills.sort()).toEqual(["red", "var(--ll-heat)", "var(--ll-heat)"]);
});

test("names are whole, and the same size in all nodes; far out there are none", () => {
  const names = ["max_reduce axis 1", "model.layers.0.weight", "0.0901684", "less_than"];
  const nodes = names.map((op, at) => ({ id: at + 1, op, kind: at === 2 ? "constant" : "op" }));
  const at = (scale: number) => draw(scale, 0, null, [], made({ stages: [{ title: "as written", nodes }] }).runs[0]!).element;
  for (const scale of [0.31, 0.5]) {
    expect(texts(at(scale))).toEqual(names);
    expect(at(scale).querySelectorAll("text:not(.ll-word)").length).toBe(0);
  }
  expect(texts(at(0.29))).toEqual([]);
});
