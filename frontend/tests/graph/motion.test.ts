// From the graph before a pass to the one after it.

import { expect, test } from "vitest";
import { drift } from "../../src/graph/motion";
import { sceneOf } from "../../src/graph/scene";
import { SIMPLE } from "../graphs";
import { made } from "../made";

test("what both have lies elsewhere by so much in the middle", () => {
  const view = made(SIMPLE).runs[0]!.viewOf(1), none = new Set<string>();
  const [before, after] = (["before", "after"] as const).map((places) => sceneOf(view, none, places));
  const kept = [...Array(view.things).keys()].filter((thing) => before!.rect(thing) && after!.rect(thing));
  const away = kept.map((thing) => after!.rect(thing)!.y - before!.rect(thing)!.y), [, y] = drift(before!, after!);
  expect(kept.length).toBeGreaterThan(0);
  expect(y).toBeCloseTo(away.reduce((sum, one) => sum + one, 0) / away.length);
  expect(drift(before!, before!)).toEqual([0, 0]);
});
