import { expect, test } from "vitest";
import { fragment, inFragment, nearest, readAt, writtenAt } from "../../src/data/at";
import { Store } from "../../src/data/store";
import { made } from "../made";
import { RICH } from "../rich";

const bundle = made(RICH, { ...RICH, title: "other" });
const from = { run: 0, stage: 3, firing: -1 };
const read = (text: string) => readAt(text, bundle, from);

test("every place and selection is read from what is written of it", () => {
  for (const run of [0, 1])
    for (const [stage, { firings }] of bundle.runs[run]!.stages.entries())
      for (let firing = -1; firing <= firings; firing++)
        for (const selected of [null, { kind: "kernel", kernel: 1 }, { kind: "launch", launch: 0 }, { kind: "rule", rule: "add-zero" }, { kind: "line", origin: 1 }, { kind: "source", kernel: 0, dialect: "c", line: 2 }] as const) {
          const store = new Store(bundle, { run, stage, firing });
          store.select(selected);
          const at = read(writtenAt(store));
          expect(at, writtenAt(store)).toEqual({ place: { run, stage, firing }, selected });
        }
});
test("nodes by name: at the stage, before it, or anywhere", () => {
  const run = bundle.runs[0]!;
  const name = run.name(run.lines(0)[0]!) || String(run.id[run.lines(0)[0]!]);
  expect(read(`written/%${name}`).selected).toEqual({ kind: "node", stage: 0, ids: [run.id[run.lines(0)[0]!]] });
  expect(() => read("written/%nothing-like-it")).toThrow("There is no node “%nothing-like-it” here.");
});
// tests/viz/live/test_at.py has the same for Python.
test("without a pass: where one is, or where another run begins; of nodes those of that graph", () => {
  const bundle = made({ ...RICH, first: 1 }, { ...RICH, title: "other", first: 2 });
  const begun = new Store(bundle).place, at = (text: string, from = begun) => readAt(text, bundle, from);
  expect(begun).toEqual({ run: 0, stage: 1, firing: -1 });
  expect(at("/kernel other")).toEqual({ place: begun, selected: { kind: "kernel", kernel: 1 } });
  expect(at("/%x").selected).toEqual({ kind: "node", stage: 1, ids: [1] });
  expect(at("").place).toEqual(begun);
  expect(at("/1/rule add-zero").place).toEqual({ run: 0, stage: 1, firing: 1 });
  expect(at("1:/%x")).toEqual({ place: { run: 1, stage: 2, firing: -1 }, selected: { kind: "node", stage: 2, ids: [1] } });
  expect(at("/%x", from)).toEqual({ place: { ...from, firing: -1 }, selected: { kind: "node", stage: 3, ids: [1] } });
  expect(at("0:/%x", { run: 1, stage: 3, firing: 1 }).place).toEqual(begun);
});
test("what is not there is answered with what is nearest", () => {
  for (const [text, words] of [["simplfy", "did you mean “simplify”?"], ["fuse@1", "pass 1 is"], ["99", "they go from 0 to 3"], ["simplify/999", "not 999"], ["2:fuse", "There is no run 2"], ["fuse/kernel prodct", "did you mean “product”?"], ["fuse/launch 7", "counted from 0"], ["fuse/nonsense", "selects nothing"], ["fuse/source product rust 1", "selects nothing"], ["fuse\u0000", "names no place"], ["y".repeat(401), "names no place"]])
    expect(() => read(text!), text).toThrow(words);
});
test("fragments: decoded strictly, and left as they are where they are no code", () => {
  expect(inFragment("#at=dce/%25y")).toBe("dce/%y");
  expect(inFragment("#at=dce/%zz")).toBe("dce/%zz");
  expect(inFragment("#other")).toBeNull();
  expect(fragment("1:dce@3/%y, a b")).toBe("#at=1:dce@3/%25y,%20a%20b");
});
test("the nearest name takes few letters", () => {
  expect(nearest("recognize", ["dce", "recognise"])).toBe("recognise");
  expect(nearest("zzz", ["dce", "recognise"])).toBeNull();
});
