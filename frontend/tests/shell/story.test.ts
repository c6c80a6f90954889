// @vitest-environment jsdom
import { beforeEach, expect, test } from "vitest";
import { shell } from "../../src/shell/shell";
import { stepsOf, words } from "../../src/shell/story";
import { Store } from "../../src/data/store";
import { made } from "../made";
import { named, press, RICH, silent } from "../rich";

beforeEach(() => document.body.replaceChildren());
const step = (stage: number, text: string, selection: object = {}) => ({ place: { run: 0, stage, firing: -1 }, selection, text });
const STORY = [step(0, "As `written`."), step(1, "<img src=x onerror=alert(1)>", { kind: "kernel", kernel: 0 }), step(3, "The end.")];
const on = (story: unknown = STORY) => {
  const store = new Store(made(RICH));
  const pane = shell(document.body, store, { what: "workbench", theme: "auto", live: silent, story });
  return { store, pane, bar: document.querySelector<HTMLElement>(".ll-story")! };
};

test("a step shows its place, and says what is there; buttons and keys go on and back", () => {
  const { store, bar } = on();
  expect([bar.querySelector("strong")!.textContent, bar.querySelector("p")!.textContent]).toEqual(["1 of 3", "As written."]);
  expect([store.place.stage, bar.querySelector("code")!.textContent]).toEqual([0, "written"]);
  named(bar, "Next").click();
  expect([store.place.stage, store.selected]).toEqual([1, { kind: "kernel", kernel: 0 }]);
  press(document.querySelector<HTMLElement>(".ll-graph")!, "N");
  expect([bar.querySelector("strong")!.textContent, store.place.stage, store.selected]).toEqual(["3 of 3", 3, null]);
  expect(named(bar, "Next").disabled).toBe(true);
  press(document.querySelector<HTMLElement>(".ll-graph")!, "B");
  expect(store.place.stage).toBe(1);
});
test("text is text", () => {
  const { bar } = on();
  named(bar, "Next").click();
  expect(bar.querySelector("img")).toBeNull();
  expect(bar.querySelector("p")!.textContent).toBe("<img src=x onerror=alert(1)>");
  expect(words("a `b` `c").map((one) => (typeof one === "string" ? one : one.outerHTML))).toEqual(["a ", "<code>b</code>", " `c"]);
});
test("who walks away is led back", () => {
  const { store, bar } = on();
  expect(named(bar, "Look here").hidden).toBe(true);
  store.go({ stage: 2 });
  expect(named(bar, "Look here").hidden).toBe(false);
  named(bar, "Look here").click();
  expect(store.place.stage).toBe(0);
});
test("what is not a step is left out, and without any there is no bar", () => {
  const store = new Store(made(RICH));
  expect(stepsOf([{ text: 3, place: {} }, null, step(1, "one"), { text: "x", place: { run: 9 } }], store).length).toBe(1);
  expect(stepsOf("story", store)).toEqual([]);
  expect(on([]).bar).toBeNull();
});
test("it goes with its workbench", () => {
  const { pane } = on();
  pane.dispose();
  expect(document.querySelector(".ll-story")).toBeNull();
});
