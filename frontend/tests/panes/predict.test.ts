// @vitest-environment jsdom
import { expect, test } from "vitest";
import { predict } from "../../src/panes/predict";
import type { Store } from "../../src/data/store";
import { named, opened, press, RICH, texts } from "../rich";

/** Choose a node of the picture by a key. */
const pick = (store: Store, host: HTMLElement, id: number, key = "Enter") => {
  store.select({ kind: "node", stage: 0, ids: [id] });
  press(host.querySelector(".ll-graph")!, key);
};
const on = () => opened((store, host) => predict(store, host), {}, { ...RICH, stages: RICH.stages.slice(0, 2) });

test("it shows the graph before, and asks", () => {
  const { store, host } = on();
  expect(store.place).toEqual({ run: 0, stage: 0, firing: -1 });
  expect(host.querySelector("h2")!.textContent).toMatch(/^What will simplify do to these \d+ nodes\?$/);
  expect(host.querySelectorAll("legend").length).toBe(3);
  expect(host.querySelector("table")).toBeNull();
});
test("what was said stands beside what happens", () => {
  const { store, host } = on();
  const { run } = store, about = run.stages[1]!;
  const gone = [...run.lines(0)].map((row) => run.id[row]!).filter((id) => run.alive(1).row(id) < 0);
  for (const id of gone) pick(store, host, id);
  host.querySelector<HTMLInputElement>("[type=number]")!.value = String(about.after + 1);
  for (const box of host.querySelectorAll<HTMLInputElement>("label input")) box.checked = Object.keys(about.counts).includes(box.value);
  named(host, "Reveal").click();
  const said = [...host.querySelectorAll("tbody tr")].map((row) => row.children[1]!.className);
  expect(said).toEqual(["ll-is-not", gone.length ? "ll-is-right" : "", "ll-is-right"]);
  expect(store.place.stage).toBe(1);
  named(host, "Hide it again").click();
  expect(store.place.stage).toBe(0);
  expect(host.querySelector("table")).toBeNull();
});
test("a node that is picked twice is taken back, and keys may walk past nodes", () => {
  const { store, host } = on();
  const id = store.run.id[store.run.lines(0)[0]!]!, none = "click nodes in the graph, or press Enter at them";
  store.select({ kind: "node", stage: 0, ids: [id] });
  press(host.querySelector(".ll-graph")!, "ArrowDown");
  expect([store.selected, host.textContent]).toEqual([{ kind: "node", stage: 0, ids: [4] }, expect.stringContaining(none)]);
  pick(store, host, id, " ");
  expect(texts(host, "fieldset button")).toEqual(["%x ×"]);
  pick(store, host, id);
  expect(host.textContent).toContain(none);
  pick(store, host, id);
  named(host, "%x stays").click();
  expect(host.textContent).toContain(none);
});
test("what was said is there again when it is drawn anew", () => {
  const { store, host, pane } = on();
  const id = store.run.id[store.run.lines(0)[0]!]!, fields = () => [...host.querySelectorAll<HTMLInputElement>("input")];
  pick(store, host, id);
  fields()[0]!.value = "12";
  fields()[1]!.checked = true;
  named(host, "Reveal").click();
  pane.dispose();
  host.replaceChildren();
  predict(store, host);
  expect([fields()[0]!.value, fields().map((one) => one.checked).indexOf(true)]).toEqual(["12", 1]);
  expect(texts(host, "tbody tr").length).toBe(3);
  named(host, "Hide it again").click();
  expect(texts(host, "fieldset button").length).toBe(1);
});
