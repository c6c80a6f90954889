// @vitest-environment node
import { expect, test } from "vitest";
import { bytes, count, many, seconds, signed } from "../../src/data/units";

test.each([[0, "0.00 ns"], [2e-9, "2.00 ns"], [1.3e-3, "1.30 ms"], [4.21e-5, "42.1 µs"], [12.3, "12.3 s"]])("%d seconds", (value, words) => expect(seconds(value)).toBe(words));
test.each([[12, "12 B"], [24_576, "24.6 kB"], [1.2e9, "1.20 GB"], [null, "?"]])("%d bytes", (value, words) => expect(bytes(value)).toBe(words));
test.each([[12_352, "12,352"], [2.5e12, "2.50 T"], [undefined, "?"]])("%d of many", (value, words) => expect(many(value)).toBe(words));
test("counts", () => expect([count(1, "node"), count(11_678, "node"), count(2, "pass", "passes")]).toEqual(["1 node", "11,678 nodes", "2 passes"]));
test("signs", () => expect([3, 0, -2].map(signed)).toEqual(["+3", "±0", "−2"]));
