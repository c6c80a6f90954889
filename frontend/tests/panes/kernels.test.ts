// @vitest-environment jsdom
import { expect, test } from "vitest";
import { kernels } from "../../src/panes/kernels";
import { SIMPLE } from "../graphs";
import { opened, press, texts } from "../rich";

test("from the definition to the launches", () => {
  const { host } = opened(kernels);
  expect(texts(host, "h2")).toEqual(["what it computes", "why it is one kernel", "its schedule: 1 step", "the nest", "1 launch"]);
  expect(texts(host, "option")).toEqual(["product", "other"]);
  expect(host.textContent).toContain("elementwise: 1 op");
  expect(texts(host, "[data-launch]")).toEqual(["0: %7 of %x, %y; cell 1, line 2"]);
});
test("a step shows the nest before and after it", () => {
  const { host } = opened(kernels);
  press(host.querySelector(".ll-steps")!, "ArrowDown");
  expect(texts(host, "pre .ll-is-gone")).toEqual(["−  for i < 4:"]);
  expect(texts(host, "pre .ll-is-new")).toEqual(["+  parallel i < 4:"]);
  press(host.querySelector(".ll-steps")!, "ArrowUp");
  expect(texts(host, "pre .ll-is-gone")).toEqual([]);
});
test("a launch selects, and is lit by its node", () => {
  const { store, host } = opened(kernels);
  store.select({ kind: "node", stage: 3, ids: [7] });
  expect(host.querySelector("[data-launch]")!.classList).toContain("ll-lit");
  host.querySelector<HTMLElement>("[data-launch]")!.click();
  expect(store.selected).toEqual({ kind: "launch", launch: 0 });
});
test("another kernel by choice, and by the selection", () => {
  const { store, host } = opened(kernels);
  const choice = host.querySelector("select")!;
  choice.value = "1";
  choice.dispatchEvent(new Event("change"));
  expect(store.selected).toEqual({ kind: "kernel", kernel: 1 });
  expect(host.querySelector("pre")!.textContent).toBe("kernel other");
  store.select({ kind: "launch", launch: 0 });
  expect(choice.value).toBe("0");
});
test("a run without kernels", () => expect(opened(kernels, {}, { ...SIMPLE, facts: {} }).host.textContent).toContain("There are no kernels in this run"));
