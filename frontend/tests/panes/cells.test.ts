// @vitest-environment jsdom
import { expect, test } from "vitest";
import { cellLines, cells } from "../../src/panes/cells";
import { SIMPLE } from "../graphs";
import { FACTS, opened, RICH, texts } from "../rich";

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
test("of a file of which some lines are known only these are shown, and empty lines between them", () => {
  const lines = cellLines([{ title: "model.py", text: "\n".repeat(14) + "a = 1\n\nb = 2" + "\n".repeat(9) + "c = 3" }], []);
  expect(lines.map((line) => line.number)).toEqual([0, 15, 16, 17, 26]);
});
test("it begins at the line that takes most, or at the first that wrote something, not at the file's head", () => {
  const first = (times: NonNullable<typeof FACTS.times>) => {
    const head = "import os\n".repeat(60);
    const origins = SIMPLE.origins!.map((one) => ({ ...one, line: one.line + 60 + (one.file === "cell 2" ? 40 : 0), file: "model.py" }));
    const { host } = opened(cells, { stage: 3 }, { ...RICH, origins, facts: { ...FACTS, times, cells: [{ title: "model.py", text: head + "x = 1\n".repeat(60) }] } });
    return host.querySelector(".ll-here .ll-lineno")!.textContent;
  };
  expect([first([]), first(FACTS.times!)]).toEqual(["61", "62"]);
});
test("nobody knows", () => {
  const { host } = opened(cells, {}, { stages: [{ title: "w", nodes: [{ id: 1, op: "input" }] }] });
  expect(host.querySelector(".ll-note")!.textContent).toBe("Nobody knows which lines wrote this graph.");
});
