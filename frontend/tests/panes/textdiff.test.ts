// @vitest-environment jsdom
import { expect, test } from "vitest";
import { textDiff } from "../../src/panes/textdiff";
import { blocks } from "../graphs";
import { opened, texts } from "../rich";

test("what went and what came, each a node of its own graph", () => {
  const { store, host } = opened(textDiff, { stage: 1 });
  expect(host.querySelector(".ll-note")!.textContent).toBe("simplify: 3 lines out, 1 line in; gives %5");
  expect(host.querySelectorAll(".ll-is-gone").length).toBe(3);
  host.querySelector<HTMLElement>(".ll-is-gone")!.click();
  expect(store.selected).toMatchObject({ kind: "node", stage: 0 });
  host.querySelector<HTMLElement>(".ll-is-new")!.click();
  expect(store.selected).toEqual({ kind: "node", stage: 1, ids: [5] });
  expect(texts(host, ".ll-is-new.ll-lit").length).toBe(1);
});
test("outputs that changed are said", () => {
  const { host } = opened(textDiff, { stage: 3 });
  expect(host.querySelector(".ll-note")!.textContent).toContain("gave %5, gives %7");
});
test("no change", () => {
  const { host } = opened(textDiff, { stage: 2 });
  expect(host.querySelector(".ll-note")!.textContent).toContain("nothing has changed no line");
});
test("a fold opens by a click, and by itself where what is selected is in it", () => {
  const before = blocks(8).stages[0]!;
  const run = { stages: [before, { ...before, title: "cut", nodes: before.nodes.slice(0, -1), outputs: [before.nodes.at(-2)!.id] }] };
  const { store, host } = opened(textDiff, { stage: 1 }, run);
  expect(texts(host, ".ll-is-fold")).toEqual([`⋯${before.nodes.length - 4} lines as before`]);
  store.select({ kind: "node", stage: 1, ids: [1] });
  expect(host.querySelector(".ll-is-fold")).toBeNull();
  store.go({ stage: 0 });
  store.go({ stage: 1 });
  store.select(null);
  host.querySelector<HTMLElement>(".ll-is-fold")!.click();
  expect(host.querySelector(".ll-is-fold")).toBeNull();
  expect(store.selected).toBeNull();
});
