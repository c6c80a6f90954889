// @vitest-environment jsdom
import { expect, test, vi } from "vitest";
import { NO_KERNEL, Refused, type Live } from "../../src/data/live";
import { pythonOf, rerun, summed } from "../../src/panes/rerun";
import { SIMPLE } from "../graphs";
import { made, type Made } from "../made";
import { answering, named, opened, RICH, settled, silent, texts } from "../rich";

const on = (live: Live, ...runs: Made[]) => opened((store, host) => rerun(store, host, live), {}, ...runs);
const boxes = (host: Element) => [...host.querySelectorAll<HTMLInputElement>("[type=checkbox]")];
const fields = (host: Element) => [...host.querySelectorAll<HTMLInputElement>(".ll-field")];
const python = (host: Element) => host.querySelector("pre")!.textContent;

test("as it was: the run's own Python", () => {
  const { host } = on(silent);
  expect(fields(host).map((one) => one.value)).toEqual(["simplify", "nothing", "fuse"]);
  expect(python(host)).toBe('cx.compile("simplify, nothing, fuse")');
});
test("changed and off: the passes as text", () => {
  const { host } = on(silent);
  boxes(host)[1]!.click();
  fields(host)[0]!.value = "simplify{limit = 3}";
  fields(host)[0]!.dispatchEvent(new Event("input"));
  expect(python(host)).toBe('cx.compile(\n    "simplify{limit = 3}, fuse",\n)');
  named(host, "the passes as they were").click();
  expect(python(host)).toBe('cx.compile("simplify, nothing, fuse")');
});
test("what the compile was given beside passes stays: its device, its licence", () => {
  const facts = { ...RICH.facts, python: 'cx.compile("a", ll.CPUCompiler(threads=2))', besides: ["ll.CPUCompiler(threads=2).alone()", "licence=['no_nan']"] };
  const { host } = on(silent, { ...RICH, facts });
  expect(python(host)).toBe(facts.python);
  boxes(host)[1]!.click();
  expect(python(host)).toBe(`cx.compile(\n    "simplify, fuse",\n    ${facts.besides[0]!},\n    ${facts.besides[1]!},\n)`);
  for (const one of [0, 2]) boxes(host)[one]!.click();
  expect(python(host)).toBe(`cx.compile(\n    ${facts.besides[0]!},\n    ${facts.besides[1]!},\n)`);
});
test("many passes are several lines of one string", () => {
  const run = made(RICH).runs[0]!;
  const text = pythonOf(run, Array.from({ length: 12 }, (_, at) => ({ text: `a-long-name-${at}`, isOn: true })));
  expect(text.split("\n").length).toBe(6);
  expect(text).toMatch(/11",\n\)\n$/);
});
test("run again from a pass on: what is above it stays", async () => {
  const live = answering({ run: 1, text: "3 nodes instead of 5" });
  const { store, host } = on(live, RICH, { ...SIMPLE, title: "again" });
  host.querySelectorAll<HTMLInputElement>("[type=radio]")[1]!.click();
  expect(fields(host).map((one) => one.disabled)).toEqual([true, false, false]);
  boxes(host)[2]!.click();
  named(host, "as a further run; the session's own compile stays").click();
  await settled();
  expect(live.asked).toEqual([{ ask: "rerun", run: 0, from: 1, passes: [{ text: "nothing", on: true }, { text: "fuse", on: false }] }]);
  expect(store.place.run).toBe(1);
  expect(host.querySelector("[role=status]")!.textContent).toBe("3 nodes instead of 5");
});
test("the answer may come before the data", async () => {
  const { store, host } = on(answering({ run: 1 }));
  named(host, "as a further run; the session's own compile stays").click();
  await settled();
  expect(store.place.run).toBe(0);
  store.setBundle(made(RICH, { ...RICH, title: "again" }));
  await settled();
  expect(store.place.run).toBe(1);
});
test("what is different from another run", () => {
  const { store, host } = on(silent, { ...SIMPLE, title: "first" }, RICH);
  store.go({ run: 1 });
  const rows = [...host.querySelectorAll("tr")].map((row) => texts(row, "th, td"));
  expect(rows.slice(0, 3)).toEqual([["", "first", "simple", ""], ["nodes at the end", "3", "3", "the same"], ["kernels", "1", "2", "+100 %"]]);
  expect(rows.at(-1)).toEqual(["H200, modelled", "", "2.00 µs", ""]);
  expect(texts(host, ".ll-ir.ll-is-new")).toEqual(["+ product", "+ other"]);
});
test("code that a file brought along is shown, and runs when somebody says so", async () => {
  const refused = new Refused("kernel evil in C: it comes from a file", [{ digest: "ab", what: "kernel evil in C", source: "void evil(void) {\n}" }]);
  for (const [word, asks, said] of [["Run it", [undefined, ["ab"]], "done"], ["Do not run it", [undefined], "Nothing was run."]] as const) {
    const live = answering(refused, { text: "done" });
    const { host } = on(live);
    named(host, "as a further run; the session's own compile stays").click();
    await settled();
    expect(texts(host, ".ll-trust pre")).toEqual(["void evil(void) {\n}"]);
    // Whoever presses Enter without reading has run nothing.
    expect(document.activeElement!.textContent).toBe("Do not run it");
    named(host, word).click();
    await settled();
    expect(live.asked.map((one) => one["trust"])).toEqual(asks);
    expect(host.querySelector("[role=status]")!.textContent).toBe(said);
  }
});
test("code that is refused again is asked about again", async () => {
  const refused = (digest: string): Refused => new Refused("no", [{ digest, what: digest, source: "" }]);
  const live = answering(refused("a"), refused("b"), {});
  const { host } = on(live);
  named(host, "take the time of each launch of this run").click();
  for (const _ of "ab") {
    await settled();
    named(host, "Run it").click();
  }
  await settled();
  expect(live.asked.map((one) => one["trust"])).toEqual([undefined, ["a"], ["a", "b"]]);
});
test("sums", () => expect(summed(made(RICH).runs[0]!).get("this CPU, measured")![1]).toBe("6.00 µs"));
test("without a kernel it says so", async () => {
  const { host } = on(silent);
  named(host, "take the time of each launch of this run").click();
  await settled();
  expect(host.querySelector(".ll-sorry")!.textContent).toBe(NO_KERNEL);
});
test("the clipboard, and the text selected where there is none", async () => {
  const writeText = vi.fn(() => Promise.resolve());
  Object.defineProperty(navigator, "clipboard", { value: { writeText }, configurable: true });
  const { host } = on(silent);
  named(host, "that does what the switches say").click();
  await settled();
  expect(writeText).toHaveBeenCalledWith('cx.compile("simplify, nothing, fuse")\n');
  writeText.mockImplementation(() => Promise.reject(new Error("no")));
  named(host, "that does what the switches say").click();
  await settled();
  expect(String(getSelection())).toBe('cx.compile("simplify, nothing, fuse")');
  getSelection()!.removeAllRanges();
});
test("a graph that was not compiled", () => expect(on(silent, { stages: [{ title: "w", nodes: [{ id: 1, op: "input" }] }] }).host.textContent).toContain("This graph was not compiled"));
