// @vitest-environment jsdom
// Stubs: what a wire that leaves the screen says, and where it leads.

import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { graphView, type GraphView } from "../../src/graph/graph";
import { Store } from "../../src/data/store";
import { made, type Node } from "../made";

let store: Store, graph: GraphView;
beforeEach(() => vi.stubGlobal("matchMedia", () => ({ matches: true })));
afterEach(() => {
  graph.dispose();
  vi.unstubAllGlobals();
});

/** A chain whose last node reads the first one again. */
const chain: readonly Node[] = Array.from({ length: 40 }, (_, at) => ({
  id: at + 1, op: at ? "mul" : "input", name: at ? `n${at + 1}` : "x", reads: at === 39 ? [at, 1] : at ? [at] : [],
}));
const show = (): void => {
  store = new Store(made({ stages: [{ title: "written", nodes: chain }] }));
  graph = graphView(store, document.body, { side: "after", minimap: false });
};
const stubs = () => [...graph.element.querySelectorAll<HTMLButtonElement>(".ll-stubs > button")];
const look = (id: number): void => {
  graph.focus(store.run.rowsOf(id)[0]!);
  graph.flush();
};

test("at the end of a chain it says where the far operand is, and goes there", () => {
  show();
  look(40);
  const [stub] = stubs().filter(({ textContent }) => textContent === "↑ x");
  expect(stub!.title).toBe("Go to x");
  stub!.click();
  expect(store.selected).toEqual({ kind: "node", stage: 0, ids: [1] });
  graph.flush();
  // From there it leads back.
  expect(stubs().map(({ textContent }) => textContent)).toContain("↓ mul %n40");
});

test("what is in sight, or right beside it, needs none", () => {
  store = new Store(made({ stages: [{ title: "written", nodes: chain.slice(0, 4) }] }));
  graph = graphView(store, document.body, { side: "after", minimap: false });
  graph.flush();
  expect(stubs()).toEqual([]);
});

test("while one moves there are none, and far out neither", () => {
  show();
  look(40);
  expect(stubs().length).toBeGreaterThan(0);
  graph.camera = { ...graph.camera, x: graph.camera.x + 5 };
  expect(stubs()).toEqual([]);
  graph.camera = { x: 0, y: 0, scale: 0.05 };
  graph.flush();
  expect(stubs()).toEqual([]);
});
