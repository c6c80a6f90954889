// Outlines of kinds, courses and their tips.

import { expect, test } from "vitest";
import { courseData, outline, shortened, tip } from "../../src/graph/shapes";
import { KINDS } from "../made";

const course = (...steps: number[][]) => Float32Array.from(steps.flatMap((step) => [step.length, ...step]));

/** Where a path in steps goes. */
function points(data: string): [number, number][] {
  const found: [number, number][] = [];
  let x = 0, y = 0, startX = 0, startY = 0;
  for (const [, name, rest] of data.matchAll(/([a-zA-Z])([^a-zA-Z]*)/g)) {
    const numbers = (rest!.match(/-?[\d.]+/g) ?? []).map(Number);
    const size = { M: 2, m: 2, l: 2, h: 1, v: 1, a: 7, z: 0 }[name!]!;
    if (name === "z") [x, y] = [startX, startY];
    for (let at = 0; size && at < numbers.length; at += size) {
      const [dx, dy] = name === "h" ? [numbers[at]!, 0] : name === "v" ? [0, numbers[at]!] : [numbers[at + size - 2]!, numbers[at + size - 1]!];
      [x, y] = name === "M" ? [dx!, dy!] : [x + dx!, y + dy!];
      if (name === "M" || name === "m") [startX, startY] = [x, y];
      found.push([x, y]);
    }
  }
  return found;
}

test("each kind has an outline of its own, within its rectangle, as wide and high as that", () => {
  const seen = new Set<string>();
  for (const kind of KINDS) {
    const found = points(outline(kind, 10, 20, 100, 40));
    for (const [x, y] of found) {
      expect(x).toBeGreaterThanOrEqual(9.9);
      expect(x).toBeLessThanOrEqual(110.1);
      expect(y).toBeGreaterThanOrEqual(19.9);
      expect(y).toBeLessThanOrEqual(60.1);
    }
    expect(Math.max(...found.map(([x]) => x))).toBeCloseTo(110, 0);
    expect(Math.max(...found.map(([, y]) => y))).toBeCloseTo(60, 0);
    seen.add(outline(kind, 0, 0, 100, 40));
  }
  // Views and ops differ in their outline being broken.
  expect(seen.size).toBe(KINDS.length - 1);
  expect(outline("op", 0, 0, 20, 10)).toBe("M0 0m5 0h10a5 5 0 0 1 5 5v0a5 5 0 0 1 -5 5h-10a5 5 0 0 1 -5 -5v0a5 5 0 0 1 5 -5z");
});

test("courses go by lines and curves; what leans is a curve", () => {
  expect(courseData(course([1, 2], [1, 30]))).toBe("M1 2V30");
  expect(courseData(course([1, 2], [1, 5, 9, 5, 9, 10.04]))).toBe("M1 2C1 5 9 5 9 10");
  expect(courseData(course([0, 0], [40, 20]))).toBe("M0 0C0 10 40 10 40 20");
  expect(courseData(course([0, 0], [40, 1]))).toBe("M0 0L40 1");
});

test("tips point where a course ends", () => {
  expect(tip(course([5, 0], [5, 30]))).toBe("M5 30L8.5 23l-7 0z");
  expect(tip(course([5, 30], [5, 0]))).toBe("M5 0L1.5 7l7 0z");
  expect(tip(course([5, 0], [0, 9, 50, 10, 50, 30]))).toBe("M50 30L53.5 23l-7 0z");
});

test("long names lose their middle", () => {
  expect(shortened("h.0.attn.c_attn.weight", 14)).toBe("h.0.att…weight");
  expect(shortened("short", 14)).toBe("short");
});
