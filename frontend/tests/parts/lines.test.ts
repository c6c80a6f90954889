// @vitest-environment node
import { describe, expect, test } from "vitest";
import { splices, unified } from "../../src/parts/lines";

/** A diff as text: "−2 +2" and so on, from the old and the new lines. */
const said = (lines: ReturnType<typeof unified>) =>
  lines.map((line) => (line.kind === "same" ? `${line.old}=${line.new}` : line.kind === "gone" ? `-${line.old}` : line.kind === "new" ? `+${line.new}` : `${line.count}@${line.old}`));

describe("unified", () => {
  test("only what changed, with lines around it", () => {
    expect(said(unified(12, [[5, 1, 2]], 2))).toEqual(["3@0", "3=3", "4=4", "-5", "+5", "+6", "6=7", "7=8", "4@8"]);
  });
  test("a fold of one line is the line itself", () => {
    expect(said(unified(4, [[3, 1, 0]], 2))).toEqual(["0=0", "1=1", "2=2", "-3"]);
  });
  test("an opened fold", () => {
    expect(said(unified(6, [[5, 1, 0]], 1, new Set([0])))).toEqual(["0=0", "1=1", "2=2", "3=3", "4=4", "-5"]);
  });
  test("two changes near each other share their lines", () => {
    expect(said(unified(6, [[1, 1, 0], [3, 0, 1]], 3))).toEqual(["0=0", "-1", "2=1", "+2", "3=3", "4=4", "5=5"]);
  });
  test("no change is one fold", () => expect(said(unified(9, []))).toEqual(["9@0"]));
});

describe("splices", () => {
  const apply = (before: string[], after: string[]): string[] => {
    const found = splices(before, after);
    if (!found.length) return before;
    return unified(before.length, found, 99).flatMap((line) => (line.kind === "new" || line.kind === "same" ? [after[line.new]!] : []));
  };
  test.each([
    ["", ""], ["abc", "abc"], ["abc", ""], ["", "abc"], ["abcd", "axcd"], ["abcabba", "cbabac"], ["xaxbx", "ayb"],
  ])("%s to %s", (before, after) => expect(apply([...before], [...after]).join("")).toBe(after));
  test("a long common part stays", () => {
    expect(splices([..."abcdef"], [..."abXdef"])).toEqual([[2, 1, 1]]);
  });
});
