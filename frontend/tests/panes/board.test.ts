// @vitest-environment jsdom
import { expect, test } from "vitest";
import { NO_KERNEL } from "../../src/data/live";
import type { Board, Try } from "../../src/data/facts";
import { board, told, within } from "../../src/panes/board";
import { made, type Made } from "../made";
import { answering, FACTS, named, opened, RICH, settled, silent } from "../rich";

const tried = (name: string, more: Partial<Try> = {}): Try => ({ name, schedule: "parallel i", state: "faster", why: "", place: [0, 0], step: "", seconds: [2e-6, 1e-6, 4e-6], ratio: [0.5, 0.4, 0.6], rounds: 40, modelled: null, modelled_ratio: null, kept: false, python: `kernel = "${name}"\n`, ...more });
const first = tried("first", { state: "first", ratio: null, kept: true });
const boards = (...tries: Try[]): Board[] => [{ kernel: 0, device: "cpu", how: "measured", sizes: "n = 4", model: "", tries: [first, ...tries] }];
const run = (...tries: Try[]): Made => ({ ...RICH, facts: { ...FACTS, boards: boards(...tries) } });
const on = (live = silent, ...tries: Try[]) => opened((store, host) => board(store, host, live), {}, tries.length ? run(...tries) : RICH);
const field = (host: Element) => host.querySelector("textarea")!;
const row = (host: Element, name: string) => host.querySelector(`[data-try="${name}"]`)!;

test("it begins with the kernel's own steps, and says what there is to do", () => {
  const { host } = on();
  expect(field(host).value).toBe(RICH.facts!.kernels![0]!.schedule);
  expect(host.textContent).toContain("The compile stays as it is.");
});
test("a try is asked for by kernel, text and name", async () => {
  const live = answering({ tried: "a", text: "a: faster" });
  const { host } = on(live);
  field(host).value = "simd i";
  host.querySelector<HTMLInputElement>("[placeholder]")!.value = "a";
  field(host).dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", ctrlKey: true, bubbles: true }));
  await settled();
  expect(live.asked).toEqual([{ ask: "board", run: 0, kernel: 0, schedule: "simd i", name: "a" }]);
  expect(host.querySelector("[role=status]")!.textContent).toBe("a: faster");
});
test("a text that cannot be read is marked at its line and column", async () => {
  const { host } = on(answering({ wrong: "'by' should be here", place: [2, 9] }));
  field(host).value = "parallel i\nsplit i bi 3";
  named(host, "compile it, check its values, and time it beside the first (Ctrl+Enter)").click();
  await settled();
  expect(host.querySelector("[role=alert]")!.textContent).toBe("line 2, column 9: 'by' should be here");
  expect(host.querySelector(".ll-editor .ll-is-wrong")!.textContent).toBe("2");
  expect([field(host).selectionStart, field(host).getAttribute("aria-invalid")]).toEqual([19, "true"]);
  field(host).dispatchEvent(new Event("input"));
  expect(host.querySelector<HTMLElement>("[role=alert]")!.hidden).toBe(true);
});
test("a refused step is marked once the board is here", async () => {
  const refused = tried("a", { state: "refused", why: "no loop q", place: [1, 3], seconds: null, ratio: null });
  const { host, store } = on(answering({ tried: "a", text: "a: refused" }));
  field(host).value = "  simd q";
  named(host, "compile it, check its values, and time it beside the first (Ctrl+Enter)").click();
  await settled();
  expect(host.querySelector<HTMLElement>("[role=alert]")!.hidden).toBe(true);
  store.setBundle(made(run(refused)));
  await settled();
  expect(host.querySelector("[role=alert]")!.textContent).toBe("line 1, column 3: no loop q");
  expect(field(host).value).toBe("  simd q");
});
test("each try has its time with its interval, its ratio, and what came of it", () => {
  const wrong = tried("b", { state: "wrong", why: "O[0] is 1", step: "simd j", seconds: null, ratio: null });
  const { host } = on(silent, tried("a"), wrong, tried("c", { seconds: null, ratio: null, modelled: 1e-6, modelled_ratio: 0.25 }));
  expect(row(host, "a").textContent).toContain("2.00 µs ± 1.50 µs0.500faster");
  expect(row(host, "b").textContent).toContain("wrong: O[0] is 1; values are wrong after “simd j”");
  expect(row(host, "c").textContent).toContain("~1.00 µs~0.250");
  expect(within([2e-6, 2e-6, 2e-6])).toBe("2.00 µs ± 0.00 ns");
  expect(told(tried("x", { state: "refused", why: "no", place: [3, 2] }))).toBe("refused in line 3, column 2: no");
});
test("a try is kept, named and dropped; the first is not", async () => {
  const live = answering({}, {}, {});
  const { host } = on(live, tried("a"));
  const [name, kept] = [...row(host, "a").querySelectorAll("input")];
  kept!.click();
  name!.value = "z";
  name!.dispatchEvent(new Event("change"));
  named(host, "drop a").click();
  await settled();
  expect(live.asked.map(({ act, entry, to, kept, board }) => ({ act, entry, to, kept, board }))).toEqual([
    { act: "keep", entry: "a", kept: true, board: 0 }, { act: "rename", entry: "a", to: "z", board: 0 }, { act: "drop", entry: "a", board: 0 },
  ]);
  expect(row(host, "first").querySelectorAll("input").length).toBe(0);
});
test("a board that was recorded is marked, and stays as it is; one made here is beside it", async () => {
  const live = answering({}, {});
  const [here] = boards(tried("b")), recorded: Board = { ...boards(tried("a"))[0]!, how: "recorded" };
  const { host } = opened((store, host) => board(store, host, live), {}, { ...RICH, facts: { ...FACTS, boards: [recorded, here!] } });
  expect(row(host, "a").textContent).toContain("°2.00 µs ± 1.50 µs");
  expect([...host.querySelectorAll("h2")].map((one) => one.textContent)).toEqual(["1 of 2: ° recorded, not measured here: cpu, n = 4", "2 of 2: cpu, n = 4"]);
  expect(host.querySelectorAll('[aria-label="drop a"]').length).toBe(0);
  named(host, "drop b").click();
  named(host, "all tries, in turns with the first").click();
  await settled();
  expect(live.asked.map(({ act, board }) => [act, board])).toEqual([["drop", 1], ["measure", 1]]);
});
test("the steps of two tries beside each other, and a try's Python", async () => {
  const { host } = on(silent, tried("a", { schedule: "simd i" }));
  const against = row(host, "a").querySelector("select")!;
  against.value = "0";
  against.dispatchEvent(new Event("change"));
  expect([...host.querySelectorAll(".ll-code > .ll-is-gone, .ll-code > .ll-is-new")].map((one) => one.textContent)).toEqual(["−parallel i", "+simd i"]);
  named(host, "copy the Python that makes a").click();
  await settled();
  expect(host.querySelector(".ll-code")!.textContent).toBe('kernel = "a"');
});
test("without a kernel there is a board to read, and a sentence", async () => {
  const { host } = on({ ...silent, hasKernel: false, sorry: NO_KERNEL }, tried("a"));
  named(host, "compile it, check its values, and time it beside the first (Ctrl+Enter)").click();
  await settled();
  expect(host.querySelector("[role=status]")!.textContent).toBe(NO_KERNEL);
});
