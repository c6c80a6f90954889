// @vitest-environment jsdom
// The table: all nodes of the graph at hand, sorted, selected by mouse and keyboard.

import { beforeEach, expect, test } from "vitest";
import { Store } from "../../src/data/store";
import { table } from "../../src/panes/table";
import { blocks, SIMPLE } from "../graphs";
import { made } from "../made";

let store: Store, host: HTMLElement;

beforeEach(() => {
  store = new Store(made(SIMPLE), { stage: 0 });
  host = document.createElement("div");
  document.body.replaceChildren(host);
  table(store, host);
});

const grid = () => host.querySelector<HTMLElement>("[role=grid]")!;
const lines = () => [...host.querySelectorAll(".ll-row")];
const names = () => lines().map((line) => line.querySelector("[role=rowheader]")!.textContent);
const press = (key: string) => grid().dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
const sort = (name: string) => host.querySelector<HTMLElement>(`[title="Sort by ${name}"]`)!.click();

test("every node has a row, and the table says how many there are", () => {
  expect(names()).toEqual(["%x", "%y", "%3", "%4", "%5"]);
  expect(grid().getAttribute("aria-rowcount")).toBe("6");
  expect(lines()[3]!.getAttribute("aria-rowindex")).toBe("5");
  expect([...lines()[3]!.querySelectorAll("[role=gridcell]")].map((cell) => cell.textContent)).toEqual(["add", "[4]", "f32", "op", "3", "48 B", "", "", "cell 1, line 2: z = x + 0", ""]);
});

test("a head sorts up, down, and then as the graph is", () => {
  sort("op");
  expect(names()).toEqual(["%4", "%3", "%x", "%y", "%5"]);
  expect(host.querySelector("[aria-sort]")!.getAttribute("aria-sort")).toBe("ascending");
  sort("op");
  expect(names()[0]).toBe("%5");
  sort("op");
  expect(names()).toEqual(["%x", "%y", "%3", "%4", "%5"]);
  expect(host.querySelector("[aria-sort]")).toBe(null);
});

test("of amounts the most comes first, names are in the order of their numbers", () => {
  sort("bytes");
  expect(names()).toEqual(["%5", "%4", "%3", "%y", "%x"]);
  sort("name");
  expect(names()).toEqual(["%3", "%4", "%5", "%x", "%y"]);
});

test("arrow keys select, and a selection elsewhere lights its row", () => {
  press("ArrowDown");
  expect(store.selected).toEqual({ kind: "node", stage: 0, ids: [2] });
  store.select({ kind: "node", stage: 0, ids: [5] });
  expect(lines().map((line) => line.getAttribute("aria-selected"))).toEqual(["false", "false", "false", "false", "true"]);
  expect(grid().getAttribute("aria-activedescendant")).toBe(lines()[4]!.id);
});

test("what the picture says by colours is a column", () => {
  store.setOverlay({ name: "heat", legend: [], heat: (row) => row, text: (row) => `${row}°` });
  expect(lines()[4]!.textContent).toContain("4°");
  sort("heat");
  expect(names()[0]).toBe("%5");
});

test("in the middle of a pass there is what is there then", () => {
  store.go({ stage: 3, firing: 1 });
  expect(names()).toEqual(["%x", "%y", "%6"]);
});

test("of many rows few are elements", () => {
  const many = document.createElement("div");
  table(new Store(made(blocks(400))), many);
  expect(many.querySelector("[role=grid]")!.getAttribute("aria-rowcount")).toBe("3602");
  expect(many.querySelectorAll(".ll-row").length).toBeLessThan(60);
});
