// Boxes that open make room in their own row; what is in other rows stays.

import { expect, test } from "vitest";
import { Apart } from "../../src/graph/apart";

// A row of a box and a node, and a row of one node below.
const WAS = Float32Array.from([100, 0, 100, 40, 250, 0, 60, 40, 120, 80, 60, 40]);
const IS = Float32Array.from([100, 0, 500, 300, 250, 0, 60, 40, 120, 80, 60, 40]);
const apart = new Apart(WAS, IS, [0]);

test("an open box stays over what it was over, its neighbours step aside, other rows stay", () => {
  expect(apart.x(150, 20)).toBeCloseTo(150, 3);
  expect(apart.x(280, 20)).toBeCloseTo(280 + 200, 3);
  expect(apart.x(40, 20)).toBeCloseTo(40 - 200, 3);
  expect(apart.x(150, 100)).toBe(150);
  expect(apart.y(100) - apart.y(20)).toBeGreaterThan(100 - 20 + 130);
});

test("a wire beside the box goes around it, and back", () => {
  const course = apart.course(Float32Array.from([2, 220, -60, 2, 220, 110]));
  const points: [number, number][] = [];
  for (let at = 0; at < course.length; at += course[at]! + 1) points.push([course[at + course[at]! - 1]!, course[at + course[at]!]!]);
  expect(points[0]).toEqual([220, -60]);
  expect(points.at(-1)![0]).toBe(220);
  const beside = points.filter(([, y]) => y > apart.y(2) && y < apart.y(38));
  expect(points.some(([x]) => Math.abs(x - 420) < 0.01)).toBe(true);
  for (const [x] of beside) expect(x).toBeCloseTo(420, 3);
});

test("where nothing opens all is as it was", () => {
  const still = new Apart(WAS, WAS, []), course = Float32Array.from([2, 10, 40, 6, 10, 55, 30, 55, 30, 70, 2, 30, 80]);
  expect([...still.course(course)]).toEqual([...course]);
  expect([still.x(5, 5), still.y(77)]).toEqual([5, 77]);
});
