// @vitest-environment jsdom
import { beforeEach, expect, test } from "vitest";
import { Rows } from "../../src/parts/rows";
import { press } from "../rich";

let acted: number[];
let list: Rows;
beforeEach(() => {
  acted = [];
  list = new Rows({ label: "numbers", height: 20, follow: true, draw: (at) => `row ${at}`, look: (at) => (at === 3 ? "ll-lit" : ""), act: (at) => void acted.push(at) });
  document.body.replaceChildren(list.element);
  list.show(5000);
});
const ats = () => [...list.element.querySelectorAll("[role=option]")].map((row) => Number(row.getAttribute("aria-posinset")) - 1).sort((a, b) => a - b);

test("only rows in sight are elements, and each says which of how many it is", () => {
  expect(ats().length).toBeLessThan(60);
  expect(list.element.querySelector("[role=option]")!.getAttribute("aria-setsize")).toBe("5000");
  list.element.scrollTop = 40_000;
  list.element.dispatchEvent(new Event("scroll"));
  expect(ats()[0]).toBe(1992);
});
test("what is lit says so", () => expect(list.element.querySelector("[aria-selected=true]")!.textContent).toBe("row 3"));
test("arrow keys go through the rows, and act where they follow", () => {
  expect(press(list.element, "ArrowDown").defaultPrevented).toBe(true);
  press(list.element, "End");
  press(list.element, "ArrowDown");
  press(list.element, "Home");
  expect(acted).toEqual([1, 4999, 4999, 0]);
  const active = document.getElementById(list.element.getAttribute("aria-activedescendant")!);
  expect(active!.textContent).toBe("row 0");
});
test("keys with Ctrl, and others, are somebody else's", () => {
  expect(press(list.element, "ArrowDown", { ctrlKey: true }).defaultPrevented).toBe(false);
  expect(press(list.element, "x").defaultPrevented).toBe(false);
});
test("a click acts", () => {
  (list.element.querySelectorAll("[role=option]")[2] as HTMLElement).click();
  expect(acted).toEqual([2]);
});
test("reveal scrolls there", () => {
  list.reveal(2500);
  expect(list.element.scrollTop).toBeGreaterThan(49_000);
  expect(ats()).toContain(2500);
});
