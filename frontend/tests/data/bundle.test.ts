// Bytes that Python sends are read, and what is damaged is refused with a sentence.

import { deflateSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { decode, read } from "../../src/data/bundle";
import { BundleError, columns } from "../../src/data/columns";
import { SIMPLE } from "../graphs";
import { madeBytes, packed } from "../made";

const bytes = madeBytes(SIMPLE);

describe("reading", () => {
  test("raw bytes, from anywhere in a buffer", async () => {
    const shifted = new Uint8Array(bytes.length + 3);
    shifted.set(bytes, 3);
    for (const given of [bytes, new DataView(shifted.buffer, 3), bytes.buffer as ArrayBuffer]) {
      const bundle = await decode(given);
      expect(bundle.title).toBe("simple");
      expect([...bundle.typed("r0/node.id", "i32")].slice(0, 2)).toEqual([1, 2]);
    }
  });

  test("bytes packed with zlib", async () => {
    expect((await decode(deflateSync(bytes))).runs[0]!.stages.length).toBe(4);
  });

  test("columns alone, for whoever has a header of another kind", () => {
    const found = columns<{ schema: number; columns: never; what: string }>(packed({ what: "accesses" }, { at: ["f64", [1.5]] }));
    expect(found.header.what).toBe("accesses");
    expect([...found.column("at")]).toEqual([1.5]);
  });
});

describe("what is refused", () => {
  const refused = (given: Uint8Array, sentence: string) => expect(() => read(given)).toThrow(sentence);

  test("something else", () => {
    refused(new Uint8Array(20), "This is not the data of a picture: it does not begin with LLAB.");
    refused(new Uint8Array(3), "This is not the data of a picture");
  });

  test("another schema", () => {
    refused(
      packed({ schema: 2 }, {}),
      "This data has schema 2, and the script in this page reads 1: use the same version of luminal_lab for both.",
    );
  });

  test("a header that is cut off, or is not JSON", () => {
    refused(bytes.slice(0, 40), "The data of this picture is damaged: it ends within its header.");
    const broken = bytes.slice();
    broken[9] = 0x21;
    refused(broken, "The data of this picture is damaged: its header cannot be read.");
    refused(packed({ strings: [], runs: [] }, {}), "The data of this picture is damaged: its header lacks parts.");
  });

  test("data that is cut off", () => {
    expect(() => read(bytes.slice(0, -2000)).runs[0]!.lines(0)).toThrow(/The column|ends behind the last byte/i);
  });

  test("columns that are missing or of another type", () => {
    const bundle = read(bytes);
    expect(() => bundle.column("r0/nothing")).toThrow("damaged: the column r0/nothing is missing.");
    expect(() => bundle.column("toString")).toThrow(BundleError);
    expect(() => bundle.typed("r0/node.id", "f32")).toThrow("damaged: the column r0/node.id is not f32.");
  });

  test("columns at impossible places", () => {
    const text = JSON.stringify({ schema: 1, columns: { a: ["u8", 3, 1], b: ["q8", 0, 1], c: ["u8", 0, -1] } });
    const header = new TextEncoder().encode(text + " ".repeat(8 - (text.length % 8)));
    const whole = new Uint8Array(8 + header.length + 8);
    whole.set([0x4c, 0x4c, 0x41, 0x42, header.length & 255, header.length >> 8]);
    whole.set(header, 8);
    const found = columns(whole);
    for (const name of ["a", "b", "c"]) expect(() => found.column(name)).toThrow(`damaged: the column ${name} is [`);
  });

  test("packed bytes that are damaged", async () => {
    const deflated = deflateSync(bytes);
    await expect(decode(deflated.subarray(0, 300))).rejects.toThrow("it cannot be unpacked");
  });
});
