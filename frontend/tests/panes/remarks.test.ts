// @vitest-environment jsdom
import { expect, test } from "vitest";
import { remarks } from "../../src/panes/remarks";
import { side } from "../../src/panes/side";
import { FACTS, opened, RICH, silent, texts } from "../rich";

const part = { text: "part 2 of 3 of Net.forward", line: null }, broken = { text: "it ends here, since dynamo does not trace print", line: 0 };
const told = { ...RICH, facts: { ...FACTS, remarks: [part, broken] } };

test("what there is to say of a run stands there, with a link to its line", () => {
  const { store, host } = opened((at, into) => remarks(at, into), {}, told);
  expect(texts(host, ".ll-remarks > div")[0]).toBe(part.text);
  expect(texts(host, ".ll-remarks > div")[1]).toContain(`${broken.text}: `);
  host.querySelector<HTMLElement>(".ll-link")!.click();
  expect(store.selected).toEqual({ kind: "line", origin: 0 });
});
test("of a run of which there is nothing to say there is no row", () => {
  const { store, host } = opened((at, into) => remarks(at, into), {}, RICH, told);
  const row = host.querySelector<HTMLElement>(".ll-remarks")!;
  expect(row.hidden).toBe(true);
  store.go({ run: 1 });
  expect(row.hidden).toBe(false);
});
test("the panel beside a picture says it while nothing is selected", () => {
  const { host } = opened((at, into) => side(at, into, silent), {}, told);
  expect(host.textContent).toContain(`Where it is from${part.text}`);
});
