// @vitest-environment jsdom
// Stubs: what a wire that leaves the screen says, and where it leads.

import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { graphView, type GraphView } from "../../src/graph/graph";
import type { Sight } from "../../src/graph/painter";
import { drawStubs } from "../../src/graph/stubs";
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
  expect(stubs().map(({ title }) => title)).toContain("Go to mul %n40");
});

test("what is in sight, or right beside it, needs none", () => {
  store = new Store(made({ stages: [{ title: "written", nodes: chain.slice(0, 4) }] }));
  graph = graphView(store, document.body, { side: "after", minimap: false });
  graph.flush();
  expect(stubs()).toEqual([]);
});

const SCREEN = { width: 800, height: 500 };
const areaOf = (one: HTMLElement) => ({ left: parseFloat(one.style.left), top: parseFloat(one.style.top), right: parseFloat(one.style.left) + one.textContent!.length * 6.7 + 14, bottom: parseFloat(one.style.top) + 18 });

test("no stub lies over a node or another one", () => {
  const host = document.createElement("div");
  const things = [{ x: 80, y: 460, width: 120, height: 40 }, { x: 300, y: 430, width: 20, height: 20 }];
  const sight = {
    size: SCREEN, camera: { x: 0, y: 0, scale: 1 }, there: { has: () => true },
    scene: { within: () => [0, 1], rect: (one: number) => things[one], isOpen: () => false, view: { box: () => undefined } },
  } as unknown as Sight;
  const stub = (x: number, words: string) => ({ border: "bottom" as const, x, y: 500, words, thing: 7 });
  drawStubs(host, [stub(206, "↓ softmax %12"), stub(310, "↓ mul %3"), stub(315, "↓ add %4")], sight, [], () => undefined);
  const drawn = [...host.querySelectorAll("button")].map(areaOf);
  expect(drawn.length).toBe(3);
  const meets = (one: typeof drawn[number], other: typeof drawn[number]) => one.left < other.right && one.right > other.left && one.top < other.bottom && one.bottom > other.top;
  const rects = things.map(({ x, y, width, height }) => ({ left: x, top: y, right: x + width, bottom: y + height }));
  drawn.forEach((one, at) => expect([...rects, ...drawn.filter((_, other) => other !== at)].filter((other) => meets(one, other))).toEqual([]));
  // Each still touches its wire.
  drawn.forEach(({ left, right }, at) => expect(left <= [206, 310, 315][at]! && right >= [206, 310, 315][at]!).toBe(true));
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

test("wires that go to one place beside each other say so once", () => {
  const nodes = chain.map((one) => (one.id > 36 ? { ...one, reads: [one.id - 1, 1] } : one));
  store = new Store(made({ stages: [{ title: "written", nodes }] }));
  graph = graphView(store, document.body, { side: "after", minimap: false });
  look(40);
  expect(stubs().filter(({ title }) => title === "Go to x").length).toBe(1);
});
