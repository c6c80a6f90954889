// Searches: words, fields, expressions, and sentences for what cannot be read.

import { expect, test, vi } from "vitest";
import { lineOf, query, search } from "../../src/data/query";
import { blocks, SIMPLE } from "../graphs";
import { made, type Node } from "../made";

const NODES: Node[] = [
  { id: 1, op: "input", name: "x.weight", type: "f16[8, 4]", origin: 0 },
  { id: 2, op: "mul", reads: [1, 1], type: "f16[8, 4]", scope: "h.0.attn", origin: 1 },
  { id: 3, op: "mul", reads: [2, 1], type: "f32[8]", scope: "h.1.mlp", rule: "mul-one" },
  { id: 4, op: "sum_reduce", reads: [3], type: "f32[1]", name: "mul", scope: "h.1.mlp" },
];
const run = made({
  origins: [{ file: "cell 3", line: 1, code: "x = weights()" }, { file: "cell 3", line: 12, code: "x * x" }],
  stages: [{ title: "as written", nodes: NODES }],
}).runs[0]!;

function found(typed: string): number[] {
  const { exact, others } = search(run.lines(0), query(run, typed));
  return [...exact, ...others].map((row) => run.id[row]!);
}

test.each([
  ["attn", [2]],
  ["mul", [2, 3, 4]],
  ["MUL h.1", [3, 4]],
  ["op:mul", [2, 3]],
  ["name:mul", [4]],
  ["%3", [3]],
  ["op:mul dtype:f16", [2]],
  ["shape:[8,", [1, 2]],
  ['shape:"[8, 4]"', [1, 2]],
  ["scope:/h\\.[0-9]\\.mlp/", [3, 4]],
  ["/^sum|^input/", [1, 4]],
  ['line:"cell 3, line 12"', [2]],
  ["line:weights()", [1]],
  ["-op:mul f32", [4]],
  ["rule:mul-one", [3]],
  ["kind:input", [1]],
  ["text:%2", [2, 3]],
  ["/no such/", []],
  ["cell:3", []],
  ["", [1, 2, 3, 4]],
])("%s", (typed, ids) => {
  expect(query(run, typed).error).toBe("");
  expect(found(typed)).toEqual(ids);
});

test("what is called just so comes first", () => {
  const asked = query(run, "mul");
  expect(asked.isExact(run.lines(0)[1]!)).toBe(true);
  expect(found("x.weight")).toEqual([1]);
  const more = made({ stages: [{ title: "as written", nodes: [{ id: 1, op: "matmul" }, { id: 2, op: "mul" }] }] }).runs[0]!;
  const all = search(more.lines(0), query(more, "mul"));
  expect([all.exact, all.others].map((rows) => rows.map((row) => more.id[row]))).toEqual([[2], [1]]);
});

test.each([
  ["/(/", "/(/ is not a regular expression: unterminated group."],
  ["op:/mul", "A regular expression stands between two slashes: /mul|add/."],
  ["/(a+)+$/", "/(a+)+$/ repeats what repeats itself or has a choice, which can take for ever."],
  ["name:/((\\w|_)x?)*y/", "/((\\w|_)x?)*y/ repeats what repeats itself or has a choice, which can take for ever."],
  ["/(a{2,})+/", "/(a{2,})+/ repeats what repeats itself or has a choice, which can take for ever."],
  ["//", "A regular expression stands between two slashes: /mul|add/."],
])("%s is answered with a sentence", (typed, sentence) => {
  const asked = query(run, typed);
  expect(asked.error).toBe(sentence);
  expect(search(run.lines(0), asked)).toEqual({ exact: [], others: [] });
});

test.each(["/(mul|add)/", "/(h\\.)+x*/", "/[(a+)]+/", "/\\(a+\\)+/", "/(a+)b|(c*)?/"])("%s may be searched for", (typed) => {
  expect(query(run, typed).error).toBe("");
});

test("a search that takes too long ends, and says how far it came", () => {
  const clock = vi.spyOn(performance, "now").mockReturnValueOnce(0).mockReturnValueOnce(10).mockReturnValue(5000);
  const stopped = vi.fn();
  search(made(blocks(3)).runs[0]!.lines(0), query(run, "a"), stopped);
  expect(stopped).toHaveBeenCalledWith(2);
  clock.mockRestore();
});

test("half of a division is a word, not an expression", () => {
  expect(query(run, "/").error).toBe("");
});

test("what matched of a row, and of any text", () => {
  const asked = query(run, "mul h.1 -bias"), row = run.rowsOf(3)[0]!;
  expect(asked.matchesIn(row)).toEqual([{ field: "op", text: "mul", span: [0, 3] }, { field: "scope", text: "h.1.mlp", span: [0, 3] }]);
  expect(query(run, "dtype:/f\\d+/").matchesIn(row)).toEqual([{ field: "dtype", text: "f32", span: [0, 3] }]);
  expect([asked.spansIn("h.1 is a mul"), asked.spansIn("mul"), asked.spansIn("mul h.1 bias")]).toEqual([[[9, 12], [0, 3]], null, null]);
  expect(["mul", "op:mul", "%3", "-mul", "mul /h/"].map((typed) => query(run, typed).isOpen)).toEqual([true, false, false, false, true]);
});

test("a line of the user's in words", () => {
  expect(lineOf(made(SIMPLE).runs[0]!, 1)).toBe("cell 1, line 2: z = x + 0");
  expect(lineOf(run, -1)).toBe("");
});

test("each distinct text is looked at once", () => {
  const big = made(blocks(40)).runs[0]!;
  let looked = 0;
  const asked = query(big, "op:exp2");
  const before = String.prototype.indexOf;
  String.prototype.indexOf = function (this: string, ...given: [string, number?]) {
    looked += 1;
    return before.apply(this, given);
  };
  try {
    expect(search(big.lines(0), asked).exact).toHaveLength(120);
  } finally {
    String.prototype.indexOf = before;
  }
  expect(looked).toBeLessThan(10);
});
