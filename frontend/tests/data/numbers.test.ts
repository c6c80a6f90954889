import { describe, expect, it } from "vitest";
import { arrayOf, decoded, encode, statistics } from "../../src/data/numbers";
import { tokensOf } from "../../src/data/tokens";

describe("numbers", () => {
  it.each(["float64", "float32", "float16", "bfloat16", "int64", "uint64", "int32", "int16", "int8", "uint8", "bool"])("are read as they were written: %s", (dtype) => {
    const array = arrayOf(dtype, new ArrayBuffer(64), 0, 4);
    const values = dtype === "bool" ? [0, 1, 1, 0] : dtype.includes("float") ? [0, 1.5, -2.25, 96] : [0, 1, 7, 96];
    values.forEach((value, at) => encode(dtype, array, at, value));
    expect(Array.from(decoded(dtype, array))).toEqual(values);
  });

  it("round to what a dtype has", () => {
    const halves = arrayOf("float16", new ArrayBuffer(16), 0, 6);
    [1 / 3, 65519, 65520, 1e-8, 6e-8, -NaN].forEach((value, at) => encode("float16", halves, at, value));
    expect(Array.from(decoded("float16", halves))).toEqual([0.333251953125, 65504, Infinity, 0, 2 ** -24, NaN]);
    const short = arrayOf("bfloat16", new ArrayBuffer(4), 0, 1);
    encode("bfloat16", short, 0, 1.01);
    expect(decoded("bfloat16", short)[0]).toBe(1.0078125);
  });
});

describe("statistics", () => {
  it("say what Python says", () => {
    const { text, bins, edges, ...rest } = statistics("float64", [4], [1, 2, NaN, 0]);
    expect(text).toBe("4 numbers, float64(4,): 0 to 2, mean 1 ± 0.8165, 1 zeros, 1 NaN");
    expect(rest).toMatchObject({ count: 4, min: 0, max: 2, mean: 1, nan: 1, inf: 0, zeros: 1, sampled: false });
    expect([bins, edges].map((all) => (all as number[]).length)).toEqual([32, 33]);
  });

  it("have a bar for each of a few whole numbers, and one where all are the same", () => {
    expect(statistics("int64", [3], [4, 6, 6])).toMatchObject({ bins: [1, 0, 2], edges: [3.5, 4.5, 5.5, 6.5] });
    expect(statistics("float32", [2], [5, 5])).toMatchObject({ bins: [2], edges: [5, 5] });
  });

  it("take what is not finite, or not there", () => {
    expect(statistics("float32", [2], [Infinity, NaN])).toMatchObject({ min: null, mean: null, bins: [], inf: 1, nan: 1 });
    expect(statistics("float32", [0], [])["text"]).toBe("float32(0,) has no numbers");
  });
});

describe("tokens of a text", () => {
  it("are the longest words that fit", () => {
    expect(tokensOf("abcab", ["a", "b", "ab", "abc"])).toEqual({ tokens: [3, 2], unknown: "" });
  });

  it("leave out what no word has, and name it", () => {
    expect(tokensOf("a?b!", ["", "a", "b"])).toEqual({ tokens: [1, 2], unknown: "?" });
    expect(tokensOf("", ["a"])).toEqual({ tokens: [], unknown: "" });
  });
});
