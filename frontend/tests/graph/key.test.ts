// @vitest-environment jsdom
// What outlines mean: only what there is to tell apart, each in a way of its own.

import { expect, test } from "vitest";
import { pictureKey } from "../../src/graph/key";
import { graphView } from "../../src/graph/graph";
import type { Made } from "../made";
import { opened, texts } from "../rich";

const x = { id: 1, op: "input", name: "x" }, view = { id: 2, op: "permute", kind: "view", reads: [1] };
const run: Made = {
  stages: [
    { title: "written", nodes: [x, view, { id: 3, op: "mul", reads: [2] }], outputs: [3] },
    { title: "cut", nodes: [x, view, { id: 4, op: "exp2", reads: [2] }], outputs: [4], firings: [{ rule: "r", gone: [{ id: 3, op: "mul", reads: [2] }], fresh: [{ id: 4, op: "exp2", reads: [2] }] }] },
  ],
};

test("changes of a pass, views, and what is selected have entries where there are any", () => {
  const { store, host } = opened(pictureKey, { stage: 0 }, run);
  expect(texts(host, "li")).toEqual(["view"]);
  store.go({ stage: 1 });
  expect(texts(host, "li")).toEqual(["+added", "−removed", "view"]);
  store.select({ kind: "node", stage: 1, ids: [2] });
  expect(texts(host, "li").slice(3)).toEqual(["selected", "comes of it, or holds it"]);
  store.select(null);
  expect(texts(host, "li").length).toBe(3);
});

test("of a graph that stands alone nothing is told that is gone", () => {
  const { store, host } = opened((at, into) => pictureKey(at, into, undefined, "after"), { stage: 1 }, run);
  expect(texts(host, "li")).toEqual(["+added", "view"]);
  store.go({ stage: 0 });
  expect(texts(host, "li")).toEqual(["view"]);
});

test("at a firing only what is there to tell apart then has an entry", () => {
  const { store, host } = opened(pictureKey, { stage: 3, firing: 0 });
  const at = (firing: number) => (store.go({ firing }), texts(host, "li"));
  expect(at(0)).toEqual([]);
  expect(at(1)).toEqual(["−removed", "±gone by the end of the pass"]);
  expect(at(2)).toEqual(["+added", "−removed"]);
});

test("selected, related, removed and views differ by more than colour", () => {
  const { store, host } = opened((store, host) => graphView(store, host, { side: "both" }), { stage: 1 }, run);
  store.select({ kind: "node", stage: 1, ids: [2] });
  const of = (name: string) => [...host.querySelectorAll(".ll-name")].find((one) => one.textContent.includes(name))!.parentElement!;
  const ways = ["permute", "mul", "exp2"].map((name) => [of(name).querySelector("path")!.getAttribute("class"), of(name).querySelector(".ll-struck")?.textContent ?? ""]);
  expect(ways).toEqual([["ll-dotted", ""], ["ll-broken", "mul"], [null, ""]]);
  expect(host.querySelectorAll(".ll-ring").length).toBe(1);
});
