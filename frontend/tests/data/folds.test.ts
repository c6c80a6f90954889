// Times folded by module, line and kind.

import { expect, test } from "vitest";
import { folded } from "../../src/data/folds";
import type { Run } from "../../src/data/model";

const launches = [
  { origins: [0, 1], shares: [0.75, 0.25], scopes: [["h.0", 1]], family: "product" },
  { origins: [1], scopes: [["h.1", 0.5], ["", 0.5]], family: "copy" },
  { origins: [], family: "" },
];
const times = [4, 2, 1].map((median, launch) => ({ launch, median }));
const origins = [0, 1].map((at) => ({ file: "a.py", line: at + 1, code: "" }));
const run = { origins, facts: { launches, times: [{ rows: times }, { rows: [times[1]] }] } } as unknown as Run;
const seconds = (by: "scope" | "line" | "kind") => folded(run, by).map(({ name, seconds }) => [name, ...seconds]);

test("a launch is divided among its lines by what each has written", () => {
  expect(seconds("line")).toEqual([["a.py, line 1", 3, null], ["a.py, line 2", 3, 2], ["(no line)", 1, null]]);
  expect(folded(run, "line").map((one) => one.origin)).toEqual([0, 1, null]);
});
test("modules and kinds", () => {
  expect(seconds("scope")).toEqual([["h.0", 4, null], ["(no scope)", 2, 1], ["h.1", 1, 1]]);
  expect(seconds("kind")).toEqual([["product", 4, null], ["copy", 2, 2], ["other", 1, null]]);
  expect(folded(run, "kind").map((one) => one.launches)).toEqual([[0], [1], [2]]);
});
test("all parts are the whole", () => {
  for (const by of ["scope", "line", "kind"] as const) expect(folded(run, by).reduce((sum, one) => sum + one.seconds[0]!, 0)).toBeCloseTo(7);
});
