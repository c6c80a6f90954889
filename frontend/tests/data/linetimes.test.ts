// Times of launches, by the lines that wrote them.

import { expect, test } from "vitest";
import { lineTimes } from "../../src/data/linetimes";
import type { Run } from "../../src/data/model";

const launch = (...origins: number[]) => ({ origins });
const times = (how: string, ...medians: number[]) => ({ device: how, how, rows: medians.map((median, launch) => ({ launch, median })) });
const run = (...timed: object[]) => ({ facts: { launches: [launch(0), launch(0, 2)], times: timed } }) as unknown as Run;

test("a launch's time is shared by the lines that it comes of", () => {
  const found = lineTimes(run(times("measured", 3, 4)))!;
  expect([...found.seconds]).toEqual([[0, 5], [2, 2]]);
  expect(found.total).toBe(7);
});

test("a device that was measured goes before one that was modelled, and a device without times counts as none", () => {
  expect(lineTimes(run(times("modelled", 1, 1), times("measured", 3, 4)))!.how).toBe("measured");
  expect(lineTimes(run(times("measured"), times("modelled", 1, 1)))!.how).toBe("modelled");
  expect(lineTimes(run(times("measured")))).toBe(null);
});
test("a launch's time is shared by what its lines compute; of an old recording equally", () => {
  const times = (shares?: number[]) =>
    lineTimes({ facts: { times: [{ device: "CPU", how: "measured", note: "", clock: "", rows: [{ launch: 0, median: 4 }] }], launches: [{ origins: [2, 5], shares }] } } as never)!;
  expect([...times([0.75, 0.25]).seconds]).toEqual([[2, 3], [5, 1]]);
  expect([...times().seconds]).toEqual([[2, 2], [5, 2]]);
});
