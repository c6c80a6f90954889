// How much is drawn at which scale.

import { expect, test } from "vitest";
import { comfortable, levelAt, readable } from "../../src/graph/lod";

test("nearer there is more", () => {
  expect([0.01, 0.29, 0.31, 0.89, 0.9, 3].map((scale) => levelAt(scale).detail)).toEqual([0, 0, 1, 1, 2, 2]);
});

test("from where names can be read on, letters are 9 pixels high or more, and so are the smallest ones where there are some", () => {
  for (let scale = readable(); scale < 3; scale *= 1.1) expect(scale * (levelAt(scale).detail === 2 ? 10 : levelAt(scale).letters)).toBeGreaterThanOrEqual(9);
  expect(levelAt(comfortable()).detail).toBe(2);
});

test("letters of names are about as large on the screen, however far away one is", () => {
  for (let scale = 0.001; scale < 0.3; scale *= 1.1) {
    const size = levelAt(scale).letters * scale;
    // Those of names in boxes are a tenth smaller.
    expect(0.9 * size).toBeGreaterThan(9);
    expect(size).toBeLessThan(12.1);
  }
});

test("scales near each other have the same level, so that nothing is drawn again", () => {
  expect(levelAt(0.1)).toBe(levelAt(0.101));
  expect(levelAt(0.95)).toBe(levelAt(2));
  expect(levelAt(0.1)).not.toBe(levelAt(0.2));
});

test("what is to be read from far away is larger before it counts as legible", () => {
  expect(readable(2)).toBeCloseTo(2 * readable());
  expect([1.6, 1.9].map((scale) => levelAt(scale, 2).detail)).toEqual([1, 2]);
});
