// What a run answers about its rows, stages and firings.

import { describe, expect, test } from "vitest";
import { read } from "../../src/data/bundle";
import { BundleError } from "../../src/data/columns";
import { SIMPLE, blocks } from "../graphs";
import { made, madeBytes } from "../made";

const run = made(SIMPLE).runs[0]!;
const texts = (rows: Iterable<number>) => Array.from(rows, (row) => run.text(row));
const ids = (rows: Iterable<number>) => Array.from(rows, (row) => run.id[row]!);

describe("stages", () => {
  test("the lines of each follow from the one before", () => {
    expect(texts(run.lines(1))).toEqual(["%x = input() : f32[4]", "%y = input() : f32[4]", "%5 = mul(%1, %2) : f32[4]"]);
    expect(ids(run.lines(3))).toEqual([1, 2, 7]);
    expect(run.lines(2)).toEqual(run.lines(1));
    const [splice] = run.splices(1);
    expect([splice!.place, ids(splice!.gone), ids(splice!.fresh)]).toEqual([2, [3, 4, 5], [5]]);
  });

  test("what is there after some firings", () => {
    const there = (stage: number, firing: number) => {
      const alive = run.alive(stage, firing);
      const rows = [...Array(run.rows).keys()].filter((row) => alive.has(row));
      expect(alive.size).toBe(rows.length);
      return texts(rows).map((text) => text.slice(0, text.indexOf(" :"))).join("; ");
    };
    expect(there(1, 0)).toBe(there(0, -1));
    expect(there(1, 1)).toBe("%x = input(); %y = input(); %3 = constant(); %5 = mul(%1, %2)");
    expect(there(1, 2)).toBe(there(1, -1));
    expect(there(3, 1)).toBe("%x = input(); %y = input(); %6 = half(%1, %2)");
  });

  test("the row of an id changes where it is rewired", () => {
    expect(run.text(run.alive(0).row(5))).toContain("mul(%4, %2)");
    expect(run.text(run.alive(1).row(5))).toContain("mul(%1, %2)");
    expect(run.alive(3).row(5)).toBe(-1);
  });

  test("links go both ways", () => {
    expect(run.links(1).forward.get(4)).toEqual([1]);
    expect(run.links(3).back.get(7)).toEqual([5]);
    expect(run.links(0).forward.size).toBe(0);
  });

  test("a text that does not follow is refused", () => {
    const bytes = madeBytes(SIMPLE);
    const bundle = read(bytes);
    bundle.typed("r0/s1/splice", "i32")[1] = 99;
    expect(() => bundle.runs[0]!.lines(1)).toThrow("damaged: the text of stage 1 does not follow from the one before.");
  });
});

describe("nodes", () => {
  test("sources and readers", () => {
    const mul = run.alive(1).row(5);
    expect([...run.sources(mul)]).toEqual([1, 2]);
    expect(ids(run.readersOf(1))).toEqual([4, 5, 7, 6]);
    expect(run.kind(mul)).toBe("op");
    expect([run.dtype(mul), run.shape(mul), run.type(mul)]).toEqual(["f32", "[4]", "f32[4]"]);
  });

  test("a story", () => {
    expect(run.story(5).map(({ what, stage, rule, from, into }) => [what, stage, rule, from, into])).toEqual([
      ["written", 0, "", [], []],
      ["rewired", 1, "add-zero", [4, 5], [5]],
      ["taken out", 3, "fuse", [5], [6]],
    ]);
    expect(run.story(6).map(({ what }) => what)).toEqual(["made", "taken out"]);
    expect(run.story(99)).toEqual([]);
  });

  test("facts that were not sent are empty", () => {
    const bare = made(blocks(1)).runs[0]!;
    expect(bare.facts.kernels).toEqual([]);
    expect(bare.facts.memory).toBeNull();
    expect(run.facts.kernels[0]!.name).toBe("product");
  });
});

describe("views", () => {
  test("things of rows, also of folded views and of rows between", () => {
    const one = made(blocks(2)).runs[0]!;
    const view = one.viewOf(0);
    const row = (id: number) => one.rowsOf(id)[0]!;
    const expand = view.thingOf(row(3));
    expect(expand).toBe(view.thingOf(row(2)));
    expect(one.op(view.thing.row[expand]!)).toBe("exp2");
    const inner = view.thingOf(row(4));
    expect(view.above(inner).map((thing) => view.box(thing)!.path)).toEqual(["h0.mlp", "h0"]);
    expect(view.thingAt("h1.mlp")).toBe(view.above(view.thingOf(row(13)))[0]);
    expect(view.thingAt("nothing")).toBe(-1);
    expect(view.rowsIn(view.thingAt("h0")).length).toBe(6);
    const union = run.viewOf(3);
    expect(union.thingOf(run.rowsOf(6)[0]!)).toBeGreaterThanOrEqual(0);
  });

  test("stages without effect share the view before", () => {
    expect(run.stages.map(({ view }) => view)).toEqual([0, 1, 1, 2]);
    expect(run.viewOf(2)).toBe(run.viewOf(1));
  });

  test("parts that do not fit together are refused", () => {
    const bundle = read(madeBytes(SIMPLE));
    bundle.typed("r0/v0/frame.thing_at", "u32")[1] = 3;
    expect(() => bundle.runs[0]!.viewOf(0)).toThrow(BundleError);
  });
});
