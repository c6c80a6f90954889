// How times become heights; the numbers are those of tests/viz/test_search_chart.py.

import { describe, expect, test } from "vitest";
import { scaleOf, text, ticks } from "../../src/panes/searchscale";

const timed = (seconds: number, number = 1, kernel = 0, usual = 2e-3): { kernel: number; number: number; seconds: number; ratio: number } => ({ kernel, number, seconds, ratio: seconds / usual });

describe("ticks", () => {
  test("are round", () => {
    expect(ticks(1e-6, 1e-3)).toEqual([1e-6, 1e-5, 1e-4, 1e-3]);
    expect(ticks(0.45, 1.1)).toEqual([0.5, 0.7, 1]);
    expect(ticks(0.95, 1.05)).toEqual([0.96, 0.98, 1, 1.02, 1.04]);
  });

  test("are said as seconds, or as shares", () => {
    expect([text(3e-4, false), text(1.5e-3, false), text(1, false), text(0.5, true)]).toEqual(["300 µs", "1.5 ms", "1 s", "0.5"]);
  });
});

describe("a scale", () => {
  test("has seconds of one kernel, and shares of several", () => {
    const one = scaleOf([{ limit: null }], [timed(2e-3, 0), timed(1e-3)]);
    expect([one.isShare, one.value(timed(1e-3))]).toEqual([false, 1e-3]);
    const two = scaleOf([{ limit: 1e-3 }, { limit: null }], [timed(2e-3, 0), timed(1e-3, 0, 1)]);
    expect([two.isShare, two.value(timed(1e-3)), two.limit(0)]).toEqual([true, 0.5, 0.5]);
    expect(two.limit(1)).toBeNaN();
  });

  test("leaves out what is far away", () => {
    const far = scaleOf([{ limit: 1e-6 }], [timed(2e-3, 0), timed(1e-3), timed(40)]);
    expect(far.low).toBeGreaterThan(8e-4);
    expect(far.high).toBeLessThan(0.03);
    expect([far.share(40), far.share(1e-6)]).toEqual([1, 0]);
    const near = scaleOf([{ limit: 5e-4 }], [timed(2e-3, 0), timed(1e-3)]);
    expect(near.low).toBeLessThan(5e-4);
  });

  test("is there without any time", () => {
    const none = scaleOf([{ limit: null }], [timed(NaN, 0)]);
    expect(none.share(1)).toBeCloseTo(0.5);
  });
});
