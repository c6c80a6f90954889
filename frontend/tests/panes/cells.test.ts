// @vitest-environment jsdom
import { expect, test } from "vitest";
import { cellLines, cells } from "../../src/panes/cells";
import { SIMPLE } from "../graphs";
import { opened, texts } from "../rich";

test("a line selects what it wrote, and is lit by it", () => {
  const { store, host } = opened(cells);
  expect(texts(host, ".ll-cell")).toEqual(["cell 1", "cell 2"]);
  host.querySelectorAll<HTMLElement>("[role=option]")[2]!.click();
  expect(store.selected).toEqual({ kind: "line", origin: 1 });
  store.select({ kind: "node", stage: 3, ids: [7] });
  expect(texts(host, ".ll-lit > span:last-child")).toContain("z * y");
});
test("without the cells, the lines that wrote nodes", () => {
  const lines = cellLines([], [...SIMPLE.origins!, { file: "model.py", line: 9, code: "return x" }]);
  expect(lines.map((line) => [line.number, line.tokens.map(([, text]) => text).join("")])).toEqual([
    [0, "cell 1"], [1, "x, y = cx.tensor(4), cx.tensor(4)"], [2, "z = x + 0"], [0, "cell 2"], [1, "z * y"], [0, "model.py"], [9, "return x"],
  ]);
});
test("nobody knows", () => {
  const { host } = opened(cells, {}, { stages: [{ title: "w", nodes: [{ id: 1, op: "input" }] }] });
  expect(host.querySelector(".ll-note")!.textContent).toBe("Nobody knows which lines wrote this graph.");
});
