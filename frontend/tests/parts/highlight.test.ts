// @vitest-environment node
import { expect, test } from "vitest";
import { tokens, widest, type Language } from "../../src/parts/highlight";

const kinds = (text: string, language: Language) => tokens(text, language).flat().filter(([kind]) => kind).map(([kind, piece]) => `${kind}:${piece}`);

test("whatever the text, nothing is lost", () => {
  for (const language of ["c", "cuda", "metal", "ptx", "python", "form"] as const)
    for (const text of ["", "\n\n", "a /* open\nend", '"""doc\nmore', "x = '", "#\n# a", "%12 = mul %a, 1.5e-3 : f32[4]", "</script><b>"])
      expect(tokens(text, language).map((line) => line.map(([, piece]) => piece).join("")).join("\n")).toBe(text);
});
test("C", () => {
  expect(kinds("#pragma omp simd\nfor (int i = 0x1F; i < 2; i++) { f(1.5e-3f); } // end", "c")).toEqual([
    "directive:#pragma", "keyword:for", "type:int", "number:0x1F", "number:2", "called:f", "number:1.5e-3f", "comment:// end",
  ]);
});
test("a comment over lines is one on each", () => {
  expect(tokens("a /* b\nc */ d", "cuda").map((line) => line.filter(([kind]) => kind))).toEqual([[["comment", "/* b"]], [["comment", "c */"]]]);
});
test("Python", () => {
  expect(kinds('@once\ndef f(x):\n    return """a\n# b""" # c', "python")).toEqual([
    "directive:@once", "keyword:def", "called:f", "keyword:return", 'string:"""a', 'string:# b"""', "comment:# c",
  ]);
});
test("our own forms", () => {
  expect(kinds("%12 = mul %x, %y_2 : f32[4]", "form")).toEqual(["type:%12", "type:%x", "type:%y_2", "type:f32", "number:4"]);
});
test("PTX", () => expect(kinds("ld.param.u64 %rd1, [p];", "ptx")).toEqual(["directive:.param", "directive:.u64", "type:%rd1"]));
test("the widest line", () => expect(widest(tokens("a\nabc d\n", "c"))).toBe(5));
