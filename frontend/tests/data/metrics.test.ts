// How wide text is: as Python has it, so that things have room for what is written in them.

import { expect, test } from "vitest";
import { textWidth } from "../../src/data/metrics";

test("widths are those of viz/metrics.py", () => {
  // tests/viz/test_metrics.py has the same numbers.
  expect(textWidth("max_reduce axis 1", 12.5)).toBeCloseTo(111.2, 1);
  expect(textWidth("%h.0.attn → f32[4, 8]", 10)).toBeCloseTo(91.9, 1);
  expect(textWidth("ж@…", 16)).toBeCloseTo(44.4, 1);
});
