// @vitest-environment jsdom
import { expect, test } from "vitest";
import { Labels } from "../../src/parts/labels";

const PLOT = { left: 0, top: 0, right: 300, bottom: 200 };

test("a name stands beside its point, and on the other side at the edge", () => {
  const labels = new Labels(11, PLOT);
  const at = (x: number): number => Number(labels.beside(x, 100, "softmax", ["right", "left"])!.getAttribute("x"));
  expect(at(50)).toBeGreaterThan(50);
  expect(at(295)).toBeLessThan(295);
});
test("names keep off each other and off points; one that fits nowhere is left out", () => {
  const labels = new Labels(11, PLOT);
  labels.take({ left: 100, top: 90, right: 200, bottom: 110 });
  expect(labels.beside(99, 100, "kernel", ["right"])).toBeNull();
  const [first, second] = [labels.beside(20, 40, "first", ["above", "below"]), labels.beside(22, 40, "second", ["above", "below"])];
  expect(Number(first!.getAttribute("y"))).toBeLessThan(40);
  expect(Number(second!.getAttribute("y"))).toBeGreaterThan(40);
});
test("points in one place share a name", () => {
  const labels = new Labels(11, PLOT);
  expect(labels.beside(50, 50, "softmax", ["right"])).not.toBeNull();
  expect(labels.beside(51, 50, "softmax", ["left"])).toBeNull();
});
