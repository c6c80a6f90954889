// Where we are and what is selected: always something that is there.

import { expect, test, vi } from "vitest";
import { sound } from "../../src/data/selected";
import { Store } from "../../src/data/store";
import { SIMPLE } from "../graphs";
import { made } from "../made";

const bundle = made(SIMPLE, { ...SIMPLE, stages: SIMPLE.stages.slice(0, 2) });

test("the last graph of the first run is where one begins", () => {
  expect(new Store(bundle).place).toEqual({ run: 0, stage: 3, firing: -1 });
  expect(new Store(bundle, { stage: 1, firing: 1 }).place).toEqual({ run: 0, stage: 1, firing: 1 });
});

test("a place that is not there becomes the nearest that is", () => {
  const store = new Store(bundle, { run: 9, stage: 99, firing: 99 });
  expect(store.place).toEqual({ run: 1, stage: 1, firing: 2 });
  store.go({ stage: -4 });
  expect(store.place).toEqual({ run: 1, stage: 1, firing: -1 });
  expect(new Store(bundle, null as never).place.run).toBe(0);
});

test("a place whose view is still to come is gone to when it is there", () => {
  const store = new Store(made({ ...SIMPLE, only: 1 }), { stage: 1 }), said = vi.fn(), places = vi.fn();
  store.on("said", said);
  store.on("place", places);
  store.go({ stage: 3 });
  expect(store.place.stage).toBe(1);
  expect(said).toHaveBeenCalledWith("The graphs of this pass are being laid out.");
  store.setBundle(made(SIMPLE));
  expect(store.place.stage).toBe(3);
  // Who went elsewhere meanwhile stays there.
  const other = new Store(made({ ...SIMPLE, only: 1 }), { stage: 1 });
  other.go({ stage: 3 });
  other.go({ firing: 0 });
  other.setBundle(made(SIMPLE));
  expect(other.place).toEqual({ run: 0, stage: 1, firing: 0 });
});

test("another stage has all its firings done; another run has nothing selected", () => {
  const store = new Store(bundle, { stage: 1, firing: 1 });
  store.select({ kind: "line", origin: 1 });
  store.go({ firing: 0 });
  expect(store.place.firing).toBe(0);
  store.go({ stage: 3 });
  expect(store.place).toEqual({ run: 0, stage: 3, firing: -1 });
  const selections = vi.fn();
  store.on("selection", selections);
  store.go({ run: 1 });
  expect(store.place).toEqual({ run: 1, stage: 1, firing: -1 });
  expect(selections).toHaveBeenCalledWith(null);
});

test("the same selection or place is no news", () => {
  const store = new Store(bundle), heard = vi.fn();
  store.on("selection", heard);
  store.on("place", heard);
  store.select({ kind: "kernel", kernel: 0 });
  store.select({ kind: "kernel", kernel: 0 });
  store.go({ stage: 3 });
  expect(heard).toHaveBeenCalledOnce();
});

test("a new bundle keeps what it has of the selection and the place", () => {
  const store = new Store(bundle, { run: 1 });
  store.select({ kind: "node", stage: 1, ids: [5] });
  store.setBundle(made({ ...SIMPLE, stages: SIMPLE.stages.slice(0, 2) }));
  expect(store.place).toEqual({ run: 0, stage: 1, firing: -1 });
  expect(store.selected).toEqual({ kind: "node", stage: 1, ids: [5] });
  store.select({ kind: "buffer", buffer: 0 });
  store.setBundle(made({ ...SIMPLE, facts: {} }));
  expect(store.selected).toBe(null);
});

test("a selection from outside is taken if the run has it", () => {
  const run = bundle.runs[0]!;
  expect(sound({ kind: "node", stage: 0, ids: [5, 99, "x"], more: 1 }, run)).toEqual({ kind: "node", stage: 0, ids: [5] });
  expect(sound({ kind: "firing", stage: 1, firing: 1 }, run)).toEqual({ kind: "firing", stage: 1, firing: 1 });
  expect(sound({ kind: "source", kernel: 0, dialect: "c", line: 7 }, run)).toEqual({ kind: "source", kernel: 0, dialect: "c", line: 7 });
  const bad: unknown[] = [
    null, {}, 3, "node", { kind: "toString" }, { kind: "node", stage: 0, ids: [99] }, { kind: "node", stage: 9, ids: [5] }, { kind: "node", ids: 5, stage: 0 },
    { kind: "firing", stage: 1, firing: 2 }, { kind: "line", origin: -1 }, { kind: "line", origin: 0.5 }, { kind: "rule", rule: 4 }, { kind: "launch", launch: 1 },
  ];
  for (const one of bad) expect(sound(one, run), JSON.stringify(one)).toBe(null);
});
