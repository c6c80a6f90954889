// @vitest-environment jsdom
import { expect, test, vi } from "vitest";
import { memory } from "../../src/panes/memory";
import { opened, texts } from "../rich";

test("the arena, the peak, and a row for each buffer, planned ones first", () => {
  const { host } = opened(memory);
  expect(host.querySelector(".ll-facts")!.textContent).toBe("peak with each value its own 128 B as planned 64 B ");
  expect([...host.querySelector(".ll-arena rect")!.attributes].filter(({ name }) => "xywidthheight".includes(name)).map(({ name, value }) => `${name}=${value}`)).toEqual(["x=0%", "width=100%", "y=0%", "height=100%"]);
  expect(texts(host, ".ll-buffer")).toEqual(["t", "out", "x"]);
});
test("what has room for its name in the arena shows it", () => {
  const { host } = opened(memory), name = host.querySelector<SVGTextElement>(".ll-arena text")!;
  expect([name.textContent, name.style.display]).toEqual(["t", "none"]);
  const sized = vi.spyOn(Element.prototype, "getBoundingClientRect").mockReturnValue(new DOMRect(0, 0, 300, 100));
  const drawn = opened(memory).host.querySelector<SVGTextElement>(".ll-arena text")!;
  sized.mockRestore();
  expect(drawn.style.display).toBe("");
});
test("selects, and is lit by what is in it", () => {
  const { store, host } = opened(memory);
  host.querySelector(".ll-arena rect")!.dispatchEvent(new MouseEvent("click"));
  expect(store.selected).toEqual({ kind: "buffer", buffer: 0 });
  store.select({ kind: "node", stage: 3, ids: [7] });
  expect(texts(host, ".ll-lit .ll-buffer")).toEqual(["t", "out"]);
});
test("no plan", () => expect(opened(memory, {}, { stages: [{ title: "w", nodes: [{ id: 1, op: "input" }] }] }).host.textContent).toContain("There is no memory plan in this run"));
