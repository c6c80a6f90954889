// @vitest-environment jsdom
import { expect, test } from "vitest";
import { advice, known } from "../../src/panes/advice";
import type { Advice, Finding } from "../../src/data/facts";
import { answering, FACTS, named, opened, RICH, settled, silent, texts } from "../rich";

const finding: Finding = {
  kind: "graph-break", title: "graph_break() keeps two kernels apart", why: "it is written to memory", change: "take out graph_break()",
  lines: ["a.py:3"], code: "h = x.graph_break()", scope: "mlp", nodes: [5], gain: { how: "measured", ratio: 1.5, seconds: 2e-6, low: 1.4, high: 1.6, busy: 1.2 },
};
const modelled: Finding = { ...finding, kind: "low-share", title: "product reaches 10 % of its roof", nodes: [7], gain: { how: "modelled", ratio: 12, seconds: 4e-6, low: null, high: null, busy: null } };
const found: Advice = { device: "this CPU", seconds: 6e-6, findings: [finding, modelled], tried: 3, notes: ["measured while other programs kept 1.2 cores busy"] };
const on = (given: Advice | null, live = silent) => opened((store, host) => advice(store, host, live), {}, { ...RICH, facts: { ...FACTS, advice: given } });

test("each finding has its gain, how it is known, its line and the change", () => {
  const { host } = on(found);
  expect(texts(host, ".ll-gain")).toEqual(["1.50×", "~12×"]);
  const [first, second] = texts(host, "[data-finding]");
  expect(first).toContain("2.00 µs a run · measured by trying, in turns, 1.40 to 1.60, while other programs kept 1.2 cores busy");
  expect(first).toContain("mlp  a.py:3:  h = x.graph_break()");
  expect(second).toContain("~4.00 µs a run · modelled: at most, nothing was run");
  expect(texts(host, ".ll-to-change")).toEqual(["take out graph_break()", "take out graph_break()"]);
  expect(texts(host, ".ll-doubt")).toEqual(["measured while other programs kept 1.2 cores busy"]);
});
test("a finding selects its node as written, and lights up with it", () => {
  const { store, host } = on(found);
  const [first, second] = host.querySelectorAll<HTMLElement>("[data-finding]");
  first!.click();
  expect(store.selected).toEqual({ kind: "node", stage: 0, ids: [5] });
  store.select({ kind: "node", stage: 0, ids: [7] });
  expect([first, second].map((one) => one!.classList.contains("ll-lit"))).toEqual([false, true]);
});
test("nothing found is said", () => {
  const { host } = on({ ...found, findings: [], tried: 1, notes: [] });
  expect(host.textContent).toContain("Nothing was found that would make it faster: 1 change was tried.");
});
test("nobody has looked: the kernel can, and what a run takes stands there once", async () => {
  const live = answering({ text: "main: 1 ms a run" }), said: string[] = [];
  const { host, store } = on(null, live);
  store.on("said", (words) => said.push(words));
  named(host, "What is slow?").click();
  await settled();
  expect(live.asked).toEqual([{ ask: "advise", run: 0 }]);
  expect(host.querySelector(".ll-answer")!.textContent).toBe("");
  expect(said).toEqual(["main: 1 ms a run"]);
});
test("a text of a finding is text", () => {
  const { host } = on({ ...found, findings: [{ ...finding, code: "<img src=x onerror=alert(1)>" }] });
  expect(host.querySelector("img")).toBeNull();
});
test("how a gain is known where it was measured on a quiet machine", () => {
  expect(known({ ...finding, gain: { ...finding.gain, busy: 0.1 } })).toBe("measured by trying, in turns, 1.40 to 1.60");
});
