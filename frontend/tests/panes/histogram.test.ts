// @vitest-environment jsdom
// The values of a node: asked for, waited for, drawn, remembered.

import { expect, test, vi } from "vitest";
import { histogram, short, valuesOf } from "../../src/panes/histogram";
import { NO_KERNEL, withoutKernel, type Live } from "../../src/data/live";

const REPLY = { count: 1000, min: -1.5, max: 2, mean: 0.1234567, std: 1, nan: 2, inf: 0, zeros: 0, bins: [1, 0, 4], edges: [-1.5, -0.5, 0.5, 2], text: "of the session's data" };
const ASKED = { run: 0, stage: 1, id: 5 };
const settled = () => new Promise((done) => setTimeout(done));

function kernel(ask: Live["ask"]): Live {
  return { hasKernel: true, sorry: "", ask, dispose: () => undefined };
}

test("nothing is computed before somebody asks; then it is known", async () => {
  const ask = vi.fn(() => Promise.resolve(REPLY)), live = kernel(ask);
  const host = valuesOf(live, ASKED);
  expect(ask).not.toHaveBeenCalled();
  host.querySelector("button")!.click();
  expect(host.textContent).toBe("The kernel is computing …");
  await settled();
  expect(ask).toHaveBeenCalledWith("values", ASKED);
  const facts = [...host.querySelectorAll("dt")].map((name) => `${name.textContent} ${name.nextElementSibling!.textContent}`);
  expect(facts).toEqual(["count 1,000", "min -1.5", "max 2", "mean 0.12346", "std 1", "zeros 0", "nan 2"]);
  expect(host.textContent).toContain("of the session's data");
  // Another panel of the same node knows it.
  expect(valuesOf(live, ASKED).querySelector("svg")).not.toBe(null);
  expect(valuesOf(live, { ...ASKED, id: 6 }).querySelector("svg")).toBe(null);
  expect(ask).toHaveBeenCalledOnce();
});

test("an error is a sentence in the panel", async () => {
  const host = valuesOf(kernel(() => Promise.reject(new Error("There is no data for <b>x</b>."))), ASKED);
  host.querySelector("button")!.click();
  await settled();
  expect(host.querySelector("[role=alert]")!.textContent).toBe("There is no data for <b>x</b>.");
  expect(host.querySelector("b")).toBe(null);
});

test("without a kernel it says so", () => {
  expect(valuesOf(withoutKernel(), ASKED).textContent).toBe(NO_KERNEL);
});

test("bars are in proportion, what is there at all is seen, and words say it too", () => {
  const drawn = histogram([1, 0, 400], [-1, 0, 1, 2]);
  expect([...drawn.querySelectorAll("rect")].map((bar) => bar.getAttribute("height"))).toEqual(["0.8", "0", "39"]);
  expect(drawn.querySelector("svg")!.getAttribute("aria-label")).toBe("Histogram of 3 bins from -1 to 2; most values, 400, lie between 1 and 2");
  expect(drawn.querySelectorAll("title")[2]!.textContent).toBe("400 from 1 to 2");
});

test("numbers are short", () => {
  expect([1 / 3, 1e-12, 12345678, Infinity, 0].map(short)).toEqual(["0.33333", "1e-12", "12346000", "Infinity", "0"]);
});
