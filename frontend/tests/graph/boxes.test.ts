// Opening and closing many boxes at once, a level at a time.

import { expect, test } from "vitest";
import { collapsed, expanded } from "../../src/graph/boxes";
import { blocks } from "../graphs";
import { made } from "../made";

const view = made(blocks(2)).runs[0]!.viewOf(0);
const sorted = (open: ReadonlySet<string>) => [...open].sort();

test("a level further, until there is none", () => {
  const one = expanded(view, new Set(), false), two = expanded(view, one, false);
  expect(sorted(one)).toEqual(["h0", "h1"]);
  expect(sorted(two)).toEqual(["h0", "h0.mlp", "h1", "h1.mlp"]);
  expect(expanded(view, two, false)).toEqual(two);
  expect(expanded(view, new Set(), true)).toEqual(two);
});

test("the innermost close first", () => {
  expect(sorted(collapsed(view, new Set(["h0", "h0.mlp", "h1"])))).toEqual(["h0"]);
  expect(sorted(collapsed(view, new Set(["h0"])))).toEqual([]);
});

test("what is open inside a closed box is not in sight", () => {
  expect(sorted(expanded(view, new Set(["h0.mlp"]), false))).toEqual(["h0", "h0.mlp", "h1"]);
  expect(sorted(collapsed(view, new Set(["h0.mlp"])))).toEqual([]);
});
