// @vitest-environment jsdom
import { expect, test } from "vitest";
import { alignedPasses, beside, differs, unmatched } from "../../src/panes/beside";
import { made, type Made } from "../made";
import { opened, RICH, texts } from "../rich";

const other: Made = { ...RICH, title: "again", stages: [RICH.stages[0]!, { title: "late", nodes: RICH.stages[0]!.nodes }, ...RICH.stages.slice(1, 3)] };
const [one, two] = made(RICH, other).runs as [ReturnType<typeof made>["runs"][0], ReturnType<typeof made>["runs"][0]];
const on = (place = {}, ...runs: Made[]) => opened((store, host) => beside(store, host), place, ...runs);

test("passes of one name are beside each other, and others alone", () => {
  expect(alignedPasses(one, two).map(({ title, one, other }) => [title, one, other])).toEqual([["as written", 0, 0], ["late", -1, 1], ["simplify", 1, 2], ["nothing", 2, 3], ["fuse", 3, -1]]);
  expect(alignedPasses(one, two).map((pair) => differs(one, two, pair))).toEqual([false, false, false, false, true]);
});
test("what has no counterpart: by op, type and what it reads", () => {
  expect(unmatched(one, 0, two, 0)).toEqual(new Set());
  expect(unmatched(one, 3, two, 0).size).toBeGreaterThan(0);
  expect([...unmatched(one, 3, two, 0)].every((row) => [...one.lines(3)].includes(row))).toBe(true);
});
test("a table of both, with what differs marked, and two graphs", () => {
  const { store, host } = on({ stage: 1 }, RICH, other);
  expect(texts(host, ".ll-differs > td:first-child")).toEqual(["fuse"]);
  expect(host.querySelector(".ll-lit")!.getAttribute("data-pass")).toBe("simplify");
  expect(host.querySelectorAll(".ll-graph").length).toBe(2);
  host.querySelector<HTMLElement>("[data-pass=fuse] button")!.click();
  expect(store.place.stage).toBe(3);
  expect(host.querySelectorAll(".ll-graph").length).toBe(1);
  expect(texts(host, ".ll-caption")[1]).toBe("again: has no fuse");
});
test("another run is chosen above its column", () => {
  const { store, host } = on({ stage: 1 }, RICH, other, { ...RICH, title: "third" });
  const [first, second] = host.querySelectorAll("select");
  expect([first!.selectedOptions[0]!.text, second!.selectedOptions[0]!.text]).toEqual([RICH.title, "again"].map((title) => title ?? ""));
  second!.value = "2";
  second!.dispatchEvent(new Event("change"));
  expect(host.querySelectorAll("select")[1]!.selectedOptions[0]!.text).toBe("third");
  expect(host.querySelectorAll(".ll-differs").length).toBe(0);
  expect(store.place.run).toBe(0);
});
test("with one run there is a sentence", () => {
  expect(on().host.textContent).toContain("There is one run.");
});
