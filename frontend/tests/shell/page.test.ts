// @vitest-environment jsdom
// Pages: what is drawn of bytes, and where it begins.

import { expect, test } from "vitest";
import { content } from "../../src/shell/shell";
import { Store } from "../../src/data/store";
import { SIMPLE } from "../graphs";
import { madeBytes } from "../made";

const bytes = madeBytes(SIMPLE);

test("a page begins where Python was: its place, what was selected, its numbers", async () => {
  const store = (await content(bytes, "workbench", {
    place: { stage: 1, firing: 1 }, selection: { kind: "node", stage: 1, ids: [5] }, overlay: { title: "mine", values: { 5: 2 }, texts: { 5: "two" } },
  })) as Store;
  expect(store.place).toEqual({ run: 0, stage: 1, firing: 1 });
  expect(store.selected).toEqual({ kind: "node", stage: 1, ids: [5] });
  expect(store.overlay!.name).toBe("mine");
});
test("what a page cannot begin with is left out", async () => {
  const store = (await content(bytes, "workbench", { place: { stage: 99 }, selection: { kind: "node", stage: 77, ids: ["x"] } })) as Store;
  expect([store.place, store.selected, store.overlay]).toEqual([{ run: 0, stage: 3, firing: -1 }, null, null]);
});
test("bytes that are no bundle are an error that says so", async () => {
  expect(await content(new Uint8Array(9), "workbench")).toBeInstanceOf(Error);
});
