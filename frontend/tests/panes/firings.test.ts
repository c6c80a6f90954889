// @vitest-environment jsdom
import { afterEach, expect, test, vi } from "vitest";
import { firings } from "../../src/panes/firings";
import { Stepper } from "../../src/panes/stepper";
import type { Made } from "../made";
import { named, opened, press, RICH, silent, texts } from "../rich";

const on = (stage: number, ...runs: Made[]) => {
  let stepper!: Stepper;
  const found = opened((store, host) => firings(store, host, silent, (stepper = new Stepper(store))), { stage }, ...runs);
  return { ...found, stepper };
};
const row = (host: HTMLElement, at: number) => host.querySelectorAll<HTMLElement>(".ll-firings .ll-row")[at]!;
afterEach(() => vi.useRealTimers());

test("a row each, and the last one's lines", () => {
  const { host } = on(1);
  expect(texts(host, ".ll-firings b")).toEqual(["add-zero", "unused"]);
  expect(host.querySelector(".ll-firings .ll-row")!.textContent).toBe("1● add-zero− add %4  adding nothing changes nothing");
  // Where there is no room for all of it.
  expect([...host.querySelectorAll(".ll-firings .ll-row:first-child [title]")].map((one) => one.getAttribute("title"))).toEqual(["− add %4", "adding nothing changes nothing"]);
  expect(host.querySelector(".ll-grow")!.textContent).toBe("all of 2 firings done");
  expect(texts(host, ".ll-ir.ll-is-gone").length).toBe(1);
});
test("a click does the firings up to it, and selects it", () => {
  const { store, host } = on(1);
  row(host, 0).click();
  expect(store.place).toEqual({ run: 0, stage: 1, firing: 1 });
  expect(store.selected).toEqual({ kind: "firing", stage: 1, firing: 0 });
  expect(texts(host, ".ll-ir.ll-is-gone").length).toBe(2);
  expect(texts(host, ".ll-ir.ll-is-new").length).toBe(1);
  expect(row(host, 1).textContent).toContain("○");
});
test("a line of a firing selects its node in the graph that has it", () => {
  const { store, host } = on(1);
  row(host, 0).click();
  host.querySelector<HTMLElement>(".ll-ir.ll-is-gone")!.click();
  expect(store.selected).toEqual({ kind: "node", stage: 0, ids: [4] });
  host.querySelector<HTMLElement>(".ll-ir.ll-is-new")!.click();
  expect(store.selected).toEqual({ kind: "node", stage: 1, ids: [5] });
});
test("steps on and back, from the whole pass at its beginning", () => {
  const { store, host, stepper } = on(1);
  expect(stepper.step(1)).toBe(true);
  expect(store.place.firing).toBe(1);
  named(host, "one firing on (.)").click();
  expect(store.place.firing).toBe(2);
  expect(stepper.step(1)).toBe(false);
  stepper.step(-1);
  stepper.step(-1);
  expect([store.place.firing, store.selected]).toEqual([0, null]);
  expect(stepper.step(-1)).toBe(false);
  named(host, "to after the last firing").click();
  expect(store.place.firing).toBe(-1);
});
test("|◀ ◀ ▶ ▶| are first, back, forward, last", () => {
  const { store, host } = on(1);
  const firing = (sign: string) => (named(host, sign).click(), store.place.firing);
  expect(["|◀", "▶", "▶", "◀", "▶|", "|◀"].map(firing)).toEqual([0, 1, 2, 1, -1, 0]);
});
test("arrow keys step, too", () => {
  const { store, host } = on(1);
  const list = host.querySelector(".ll-firings")!;
  press(list, "Home");
  press(list, "ArrowDown");
  expect(store.place.firing).toBe(2);
});
test("one rule alone", () => {
  const { store, host, stepper } = on(1);
  const filter = host.querySelector<HTMLSelectElement>("select[aria-label='only of this rule']")!;
  expect(texts(filter, "option")).toEqual(["all rules", "add-zero ×1", "unused ×1"]);
  filter.value = "unused";
  filter.dispatchEvent(new Event("change"));
  expect(texts(host, ".ll-firings b")).toEqual(["unused"]);
  stepper.step(1);
  expect(store.place.firing).toBe(2);
  store.go({ stage: 3 });
  expect(texts(host, ".ll-firings b")).toEqual(["fuse", "fuse"]);
});
test("plays to the end, and stops there", () => {
  vi.useFakeTimers();
  const { store, host, stepper } = on(1);
  expect(texts(host, ".ll-bar .ll-button")).toEqual(["|◀", "◀", "▶", "▶|", "Play", "◀◉", "◉▶"]);
  named(host, "Play").click();
  expect(texts(host, ".ll-bar .ll-button")[4]).toBe("Pause");
  expect([stepper.isPlaying, store.place.firing]).toEqual([true, 0]);
  vi.advanceTimersByTime(1500);
  expect(store.place.firing).toBe(2);
  vi.advanceTimersByTime(1500);
  expect(stepper.isPlaying).toBe(false);
});
test("a pass that did nothing says so", () => {
  const { host } = on(2);
  expect(host.querySelector(".ll-detail p")!.textContent).toBe("nothing has changed nothing: no rule fired.");
});
test("five thousand firings are a few elements", () => {
  const x = { id: 1, op: "input" };
  const many = Array.from({ length: 5000 }, (_, at) => ({ rule: `r${at % 3}`, gone: [{ id: at + 2, op: "old" }], fresh: [] }));
  const { host, stepper } = on(1, { stages: [{ title: "written", nodes: [x, ...many.map((one) => one.gone[0]!)] }, { title: "dce", nodes: [x], firings: many }] });
  expect(stepper.shown().length).toBe(5000);
  expect(host.querySelectorAll(".ll-firings .ll-row").length).toBeLessThan(60);
});
test("firings of what is selected elsewhere light up", () => {
  const { store, host } = on(1, RICH);
  store.select({ kind: "node", stage: 0, ids: [3] });
  expect(texts(host, ".ll-firings .ll-lit b")).toContain("unused");
});
test("a derivation's firings show what they changed: definitions, then nests", () => {
  const kernel = { ...RICH.facts!.kernels![0]!, name: "rows", written: "O = a * 1", rules: [{ rule: "mul-one", told: "a * 1 → a", definition: "O = a" }], first: "for i:", steps: [{ text: "parallel i", nest: "parallel i:" }] };
  const stage = { ...RICH.stages.at(-1)!, title: "derivation", firings: ["mul-one", "parallel"].map((rule) => ({ rule, because: `rows: ${rule}`, gone: [], fresh: [] })) };
  const { host } = on(RICH.stages.length, { ...RICH, stages: [...RICH.stages, stage], facts: { ...RICH.facts, kernels: [kernel] } });
  row(host, 0).click();
  expect(texts(host, ".ll-detail h2")[1]).toBe("the definition of rows before and after");
  expect(texts(host, ".ll-detail pre .ll-is-gone")).toEqual(["−O = a * 1"]);
  row(host, 1).click();
  expect(texts(host, ".ll-detail pre .ll-is-new")).toEqual(["+parallel i:"]);
});
test("to the firings that touch the selection, in any pass, and the selection stays", () => {
  const { store, host, stepper } = on(1);
  const said: string[] = [];
  store.say = (sentence: string) => void said.push(sentence);
  stepper.touch(1);
  expect(said.pop()).toBe("select a node, a line or a rule first");
  store.select({ kind: "node", stage: 0, ids: [5] });
  const chosen = store.selected;
  const touching = store.related.firings.flatMap((firings, stage) => [...firings].sort((a, b) => a - b).map((firing) => [stage, firing + 1]));
  expect(touching.length).toBeGreaterThan(1);
  store.go({ stage: 0 });
  const seen: number[][] = [];
  while (stepper.touch(1) && !said.at(-1)!.startsWith("no firing")) seen.push([store.place.stage, store.place.firing]);
  expect(seen).toEqual(touching);
  expect(store.selected).toBe(chosen);
  expect(said.pop()).toBe("no firing after this one touches the selection");
  named(host, "back to a firing that touches the selection, in any pass (<)").click();
  expect([store.place.stage, store.place.firing]).toEqual(touching.at(-2));
});
