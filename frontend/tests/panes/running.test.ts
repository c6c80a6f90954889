// @vitest-environment jsdom
import { expect, test } from "vitest";
import type { Machine, Value } from "../../src/data/machine";
import { machinePane } from "../../src/panes/running";
import { opened } from "../rich";

/** A pane whose machine runs, and has one result. */
function running(first: readonly number[], words: readonly string[] | null = null, name = "") {
  let value: Value = { dtype: "float32", shape: [first.length], numbers: first };
  const listeners = new Set<() => void>();
  const machine = {
    inputs: [], results: [{ id: 7, name, words }], sizes: [1, 0], isRunning: true, isByGpu: false, spent: 0,
    has: () => false, need: () => undefined, value: (id: number) => (id === 7 ? value : null), on: (call: () => void) => (listeners.add(call), () => listeners.delete(call)),
  } as unknown as Machine;
  const { host, store } = opened((store, host) => machinePane(store, host, machine));
  const change = (numbers: readonly number[]) => {
    value = { ...value, numbers };
    for (const call of listeners) call();
    return new Promise(requestAnimationFrame);
  };
  return { host, store, change };
}
const most = (host: Element) => [...host.querySelectorAll(".ll-most")].map((row) => row.firstChild!.textContent);
const bars = (host: Element) => [...host.querySelectorAll<HTMLElement>(".ll-class i")].map(({ style }) => [style.marginLeft, style.width]);

test("a result has a heading: its name, or its node and what that is", () => {
  expect(running([1, 2], null, "digit").host.querySelector("h3")!.textContent).toBe("digit");
  expect(running([1, 2]).host.querySelector("h3")!.textContent).toBe("%7 call");
});
test("rows without negative numbers look like classes", () => {
  const { host } = running([1, 4]);
  expect(most(host)).toEqual(["1"]);
  expect(bars(host)).toEqual([["0%", "25%"], ["0%", "100%"]]);
  expect(host.querySelector(".ll-signed")).toBeNull();
});
test("negative numbers go to the other side, and none is the best", async () => {
  const { host, change } = running([-4, 2]);
  expect(most(host)).toEqual([]);
  expect(bars(host)).toEqual([["0%", "50%"], ["50%", "25%"]]);
  expect(host.querySelector(".ll-signed")).not.toBeNull();
  await change([4, 2]); // and it stays as it is laid out
  expect(bars(host)).toEqual([["50%", "50%"], ["50%", "25%"]]);
});
test("with words they are classes, whatever their signs", () => {
  expect(most(running([-4, 2], ["no", "yes"]).host)).toEqual(["yes"]);
});
