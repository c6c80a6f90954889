// Colours of nodes: amounts, classes and traces, each with words and a legend.

import { expect, test } from "vitest";
import { throughModel, withoutKernel } from "../../src/data/live";
import { choices, cutOverlay, ofPython, sizeOf, traced } from "../../src/graph/overlays";
import { Store, type Overlay } from "../../src/data/store";
import { FakeModel } from "../fakemodel";
import { blocks, SIMPLE } from "../graphs";
import { made, type Made } from "../made";
import { MESH } from "../spreads";

const TIMED: Made = {
  ...SIMPLE,
  facts: {
    ...SIMPLE.facts,
    times: [{ device: "cpu", how: "measured", note: "", clock: "", rows: [{ launch: 0, median: 4e-6, low: 3e-6, high: 5e-6, bytes: null, flops: null, share: null, bound: null }] }],
  },
};

async function overlay(store: Store, name: string): Promise<Overlay> {
  const choice = choices(store, withoutKernel()).find((one) => one.name === name);
  return choice!.make();
}

function texts({ run, place }: Store, overlay: Overlay): string[] {
  return Array.from(run.lines(place.stage), (row) => overlay.text(row));
}

function shown(store: Store, overlay: Overlay): Record<string, [number | null, string]> {
  const { run, place } = store;
  return Object.fromEntries(Array.from(run.lines(place.stage), (row) => [run.name(row), [overlay.heat(row), overlay.text(row)]]));
}

test("all that there is can be chosen", () => {
  expect(choices(new Store(made(TIMED)), withoutKernel()).map(({ name }) => name)).toEqual([
    "time, measured on cpu", "flops", "bytes read and written", "memory in use", "dtype", "scope", "changed by", "numeric error",
  ]);
});

test("the time of a launch is at its node; before fusion its nodes share it", async () => {
  const store = new Store(made(TIMED));
  const last = await overlay(store, "time, measured on cpu");
  expect(shown(store, last)["7"]).toEqual([1, "4.00 µs"]);
  expect(last.legend.map(({ text }) => text)).toEqual(["most: 4.00 µs at %7", "4.00 µs in all"]);
  store.go({ stage: 0 });
  const first = await overlay(store, "time, measured on cpu");
  expect(shown(store, first)).toMatchObject({ x: [null, ""], "4": [1, "≈ 2.00 µs"], "5": [1, "≈ 2.00 µs"] });
  expect(first.legend.at(-1)!.text).toBe("≈: an equal part of the launch that it is in");
});

test("amounts are in proportion to the most, and a box has the share of its nodes", async () => {
  const store = new Store(made(SIMPLE), { stage: 0 });
  const bytes = await overlay(store, "bytes read and written");
  expect(shown(store, bytes)).toEqual({ x: [null, ""], y: [0.25, "16 B"], "3": [0.5, "32 B"], "4": [0.75, "48 B"], "5": [1, "64 B"] });
  const [, , third, , fifth] = store.run.lines(0);
  expect(bytes.inBox!([third!, fifth!, fifth!])).toEqual({ heat: 96 / 160, text: "96 B, 60 %" });
  expect(bytes.inBox!([store.run.lines(0)[0]!])).toBe(null);
});

test("memory in use: what is alive while a node runs, views for free", async () => {
  // x → exp2 (2) → view (3) → mul with 2 (4) → ...; each value has 16 bytes.
  const store = new Store(made(blocks(1, 2)));
  const memory = await overlay(store, "memory in use");
  expect(texts(store, memory)).toEqual(["", "16 B", "", "32 B", "32 B", "", "32 B"]);
  const planned = new Store(made(SIMPLE));
  expect(shown(planned, await overlay(planned, "memory in use"))["7"]).toEqual([1, "16 B"]);
});

test("the size of a value", () => {
  const types = ["f32[4, 8]", "bf16[3]", "bool[5]", "f64[]", "f32[n, 2]"];
  const run = made({ stages: [{ title: "as written", nodes: types.map((type, id) => ({ id, op: "input", type })) }] }).runs[0]!;
  expect(types.map((_, row) => sizeOf(run, row))).toEqual([128, 6, 5, 8, NaN]);
});

test("classes have colours and say which they are; the ninth and further share one", async () => {
  const nodes = Array.from({ length: 10 }, (_, id) => ({ id, op: "input", type: `f${id < 3 ? 0 : id}[1]` }));
  const store = new Store(made({ stages: [{ title: "as written", nodes }] }));
  const dtype = await overlay(store, "dtype");
  expect(dtype.legend[0]).toEqual({ heat: null, tint: "var(--ll-tint-0)", text: "f0", count: 3 });
  expect(dtype.legend).toHaveLength(8);
  const eight = new Store(made({ stages: [{ title: "as written", nodes: Array.from({ length: 11 }, (_, id) => ({ id, op: "input", type: `f${id}[1]` })) }] }));
  const many = await overlay(eight, "dtype");
  expect(many.legend.at(-1)).toEqual({ heat: null, tint: "var(--ll-tint-7)", text: "4 others", count: 4 });
  expect(many.tint!(10)).toBe("var(--ll-tint-7)");
  expect(many.text(10)).toBe("f10");
  expect(dtype.inBox!([0, 1, 5])).toEqual({ heat: null, tint: "var(--ll-tint-0)", text: "f0 and 1 more" });
});

test("changed by: the last pass that made or rewired a node", async () => {
  const store = new Store(made(SIMPLE), { stage: 1 });
  expect(texts(store, await overlay(store, "changed by"))).toEqual(["as written", "as written", "simplify"]);
  store.go({ stage: 3 });
  expect(texts(store, await overlay(store, "changed by"))).toEqual(["as written", "as written", "fuse"]);
});

test("scopes are told apart where they differ", async () => {
  const store = new Store(made(blocks(3)));
  expect((await overlay(store, "scope")).legend.map(({ text }) => text)).toEqual(["h0", "h1", "h2"]);
});

test("errors come from the kernel, and are seen by orders of magnitude", async () => {
  const model = new FakeModel(), store = new Store(made(SIMPLE));
  const asked = choices(store, throughModel(model)).at(-1)!.make();
  expect(model.sent).toEqual([{ ask: "error_overlay", request: 1, run: 0 }]);
  model.emit("msg:custom", { reply: 1, values: { 1: 0, 2: 1e-9, 7: 1 }, text: "against float64" });
  const errors = await asked;
  expect(shown(store, errors)).toEqual({ x: [0, "exact"], y: [0, "1.0e-9"], "7": [1, "1.0e+0"] });
  expect(errors.legend.at(-1)!.text).toBe("against float64");
});

test("numbers from Python, with words of its own", () => {
  const run = made(SIMPLE).runs[0]!;
  const given = ofPython(run, { title: "mine", values: { 1: -2, 5: 1, nothing: 3, 7: NaN }, texts: { 1: "minus two" } });
  expect([given.name, given.text(0), given.heat(0)]).toEqual(["mine", "minus two", 1]);
  expect(given.legend.map(({ text }) => text)).toEqual(["most: minus two at %x", "2 nodes with a number"]);
});

test("a trace goes up or down, and says how far", () => {
  const store = new Store(made(SIMPLE), { stage: 0 });
  const up = traced(store.run, store.place, [5], "ancestors"), down = traced(store.run, store.place, [1], "descendants");
  expect(up.name).toBe("what %5 depends on");
  expect(shown(store, up)).toMatchObject({ "5": [1, "from here"], "4": [expect.closeTo(0.575), "↑ 1 step"], x: [expect.closeTo(0.15), "↑ 2 steps"] });
  expect(up.legend.map(({ text, count }) => [text, count])).toEqual([["from here", 1], ["up to ↑ 2 steps away", 4]]);
  expect(shown(store, down)).toMatchObject({ x: [1, "from here"], y: [null, ""], "5": [expect.closeTo(0.15), "↓ 2 steps"] });
  expect(up.inBox!([0, 3])).toMatchObject({ heat: expect.closeTo(0.575) });
  expect(traced(store.run, store.place, [5], "descendants").legend[1]!.text).toBe("nothing else");
});

test("nothing to say is said", async () => {
  const store = new Store(made({ stages: [{ title: "as written", nodes: [{ id: 1, op: "input" }] }] }));
  expect((await overlay(store, "scope")).legend).toEqual([{ heat: null, text: "no node has any here" }]);
  expect((await overlay(store, "flops")).legend).toEqual([{ heat: null, text: "0 flop in all" }]);
});

test("how values are cut: a colour for what cuts them, before the pass as well; the rest stands back", () => {
  const store = new Store(made(MESH)), cut = cutOverlay(store)!;
  expect(texts(store, cut)).toEqual(["whole", "(–, model)", "(–, –) sum over model", "sends 128 B, whole"]);
  expect(cut.legend.map(({ text, tint, count }) => [text, tint, count])).toEqual([
    ["cut over model", "var(--ll-tint-0)", 1], ["terms of a sum over model", "var(--ll-tint-1)", 1], ["whole", "var(--ll-tint-7)", 2],
  ]);
  store.go({ stage: 0 });
  expect(texts(store, cutOverlay(store)!)).toEqual(["whole", "(–, model)", "(–, –) sum over model"]);
  expect(cutOverlay(new Store(made(SIMPLE)))).toBe(null);
});

test("bytes sent", async () => {
  const store = new Store(made(MESH)), sent = await overlay(store, "bytes sent");
  expect(texts(store, sent)).toEqual(["", "", "", "sends 128 B"]);
});
