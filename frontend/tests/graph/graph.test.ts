// @vitest-environment jsdom
// The picture as a whole: what it draws, says and does for hands and keys.

import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { graphView, type GraphOptions, type GraphView } from "../../src/graph/graph";
import { Store, type Overlay } from "../../src/data/store";
import { SIMPLE, blocks } from "../graphs";
import { made, type Made } from "../made";

let store: Store, graph: GraphView, said: string[];

function show(what: Made, place: object = {}, options: GraphOptions = { side: "after" }): void {
  store = new Store(made(what), place);
  store.on("said", (words) => said.push(words));
  graph = graphView(store, document.body, options);
  graph.flush();
}

beforeEach(() => {
  said = [];
  vi.stubGlobal("matchMedia", () => ({ matches: true }));
});

afterEach(() => {
  graph.dispose();
  expect(document.body.childElementCount).toBe(0);
  vi.unstubAllGlobals();
});

const texts = (selector = "text") => [...graph.element.querySelectorAll(selector)].map((one) => one.textContent);
const names = () => texts(".ll-name").sort();
const press = (...keys: string[]) => keys.forEach((key) => graph.element.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true })));
const active = () => document.getElementById(graph.element.getAttribute("aria-activedescendant")!)!.getAttribute("aria-label");
const count = (selector: string) => graph.element.querySelectorAll(selector).length;
const whereIs = (id: number) => {
  const { camera } = graph, data = [...graph.element.querySelectorAll(".ll-name")].find((one) => one.textContent!.includes(`%${id}`) || one.textContent === `n${id}`)!;
  const [, x, y] = /translate\(([-\d.]+) ([-\d.]+)\)/.exec(data.closest("[transform]")!.getAttribute("transform")!)!;
  return [(Number(x) + Number(data.getAttribute("x"))) * camera.scale + camera.x, (Number(y) + Number(data.getAttribute("y"))) * camera.scale + camera.y] as const;
};
const tap = (x: number, y: number, more: PointerEventInit = {}) => {
  for (const type of ["pointerdown", "pointerup"]) graph.element.dispatchEvent(new PointerEvent(type, { pointerId: 1, clientX: x, clientY: y, bubbles: true, ...more }));
};

test("nodes with their names and types, wires with their arrows, results with a double outline", () => {
  show({ ...SIMPLE, stages: SIMPLE.stages.slice(0, 1) });
  expect(names()).toEqual(["add%4", "constant", "mul%5", "x", "y"]);
  expect(texts(".ll-below")).toEqual(Array(4).fill("f32[4]"));
  expect(count(".ll-wire")).toBe(1);
  expect(graph.element.querySelector(".ll-wire")!.getAttribute("d")!.match(/M/g)!.length).toBe(4);
  expect(graph.element.getAttribute("aria-label")).toBe("Graph simple, as written: 5 nodes");
  const mul = [...graph.element.querySelectorAll(".ll-name")].find((one) => one.textContent === "mul%5")!.parentElement!;
  expect(mul.querySelectorAll("path").length).toBe(2);
});

test("what changed in a pass has a sign, a broken outline where it went, and words", () => {
  show(SIMPLE, { stage: 1 }, { side: "both" });
  expect(names()).toEqual(["x", "y", "~ mul%5", "− add%4", "− constant"]);
  expect(count("g > path.ll-broken:not(.ll-wire)")).toBe(2);
  expect(texts(".ll-gone").length).toBe(2);
  expect(graph.element.querySelectorAll('.ll-wire[stroke="var(--ll-removed-line)"]').length).toBe(1);
  expect(graph.element.getAttribute("aria-label")).toBe("Graph simple, before and after simplify: 5 nodes");
});

test("stepping shows what is there, and moves nothing", () => {
  show(SIMPLE, { stage: 1, firing: 0 });
  expect(names()).toContain("add%4");
  const before = whereIs(5);
  store.go({ firing: 1 });
  graph.flush();
  expect(names()).toEqual(["constant", "x", "y", "~ mul%5"]);
  expect(whereIs(5)).toEqual(before);
  store.go({ firing: 2 });
  graph.flush();
  expect(names()).toEqual(["x", "y", "~ mul%5"]);
  expect(whereIs(5)).toEqual(before);
});

test("from firing to firing the picture stays where it is, unless what changed would be out of sight", () => {
  const chain = Array.from({ length: 60 }, (_, at) => ({ id: at, op: at ? "exp2" : "input", reads: at ? [at - 1] : [] }));
  const rewired = (id: number) => ({ rule: "r", gone: [chain[id]!], fresh: [{ ...chain[id]!, op: "sin" }] });
  const fired = [3, 4, 55].map(rewired), after = chain.map((node) => fired.flatMap(({ fresh }) => fresh).find(({ id }) => id === node.id) ?? node);
  show({ stages: [{ title: "written", nodes: chain }, { title: "sines", nodes: after, firings: fired }] }, { stage: 1, firing: 1 });
  const isInSight = (id: number): boolean => {
    graph.flush();
    const [, y] = whereIs(id);
    return y > -20 && y < 500;
  };
  expect(isInSight(3)).toBe(true);
  const { camera } = graph;
  store.go({ firing: 2 });
  expect(graph.camera).toEqual(camera);
  store.go({ firing: 3 });
  expect(isInSight(55)).toBe(true);
  store.go({ firing: 1 });
  expect(isInSight(3)).toBe(true);
});

test("a closed box says at each firing what is in it then", () => {
  const node = (id: number, ...reads: number[]) => ({ id, op: "exp2", reads, scope: "a" }), x = { id: 1, op: "input" };
  show({
    stages: [
      { title: "written", nodes: [x, node(2, 1), node(3, 2), node(4, 3)] },
      { title: "dce", nodes: [x, node(2, 1)], firings: [{ rule: "unused", gone: [node(4, 3)], fresh: [] }, { rule: "unused", gone: [node(3, 2)], fresh: [] }] },
    ],
  }, { stage: 1, firing: 0 });
  const words = () => [...graph.element.querySelectorAll(".ll-below")].map((one) => one.textContent).find((one) => one.includes("node"));
  const told = [words()];
  for (const firing of [1, 2]) {
    store.go({ firing });
    graph.flush();
    told.push(words());
  }
  expect(told).toEqual(["3 nodes", "2 nodes", "1 node"]);
});

test("a whole pass shows each graph in places of its own, between which what both have moves", () => {
  const moves = vi.fn();
  vi.stubGlobal("matchMedia", () => ({ matches: false }));
  Element.prototype.animate = moves;
  try {
    show(SIMPLE, { stage: 0 });
    store.go({ stage: 1 });
    graph.flush();
    expect(names()).toEqual(["x", "y", "~ mul%5"]);
    const own = whereIs(5);
    expect(moves).toHaveBeenCalled();
    moves.mockClear();
    vi.stubGlobal("matchMedia", () => ({ matches: true }));
    store.go({ stage: 0 });
    store.go({ stage: 1 });
    expect(moves).not.toHaveBeenCalled();
    graph.dispose();
    show(SIMPLE, { stage: 1 }, { side: "after", isFixed: true });
    expect(whereIs(5)).not.toEqual(own);
  } finally {
    Reflect.deleteProperty(Element.prototype, "animate");
  }
});

test("a closed box says how much is in it; views are words at the arrows", () => {
  show({ ...blocks(2), open: ["h0"] });
  expect(names()).toEqual(["exp2%2", "exp2%5", "exp2%8", "h1", "mlp", "tokens"]);
  expect(texts(".ll-below")).toContain("6 nodes");
  expect(texts(".ll-title")).toEqual(["h0"]);
  expect(graph.amount.textContent).toBe("4 of 19 nodes; 6 views in the edges, 9 in closed boxes");
  graph.focus(store.run.rowsOf(4)[0]!);
  expect([...store.open].sort()).toEqual(["h0", "h0.mlp"]);
  graph.flush();
  expect(texts(".ll-way")).toContain("expand");
});

test("keys go along the wires, open and close, and say where they are", () => {
  show({ ...blocks(2), open: ["h0"] });
  press("ArrowDown");
  expect(active()).toBe("tokens input f32[4], reads nothing".replace(", reads nothing", ""));
  expect(store.selected).toEqual({ kind: "node", stage: 0, ids: [1] });
  press("ArrowDown");
  expect(["exp2 %2 f32[4], reads tokens", "box mlp, closed, 3 nodes"]).toContain(active());
  store.select({ kind: "scope", stage: 0, path: "h0.mlp" });
  expect(active()).toBe("box mlp, closed, 3 nodes");
  press("Enter");
  expect([...store.open].sort()).toEqual(["h0", "h0.mlp"]);
  expect(said.at(-1)).toBe("Opened box mlp, open, 3 nodes. 7 of 19 nodes; 6 views in the edges, 6 in closed boxes");
  press(" ");
  expect([...store.open]).toEqual(["h0"]);
  press("Backspace");
  expect(active()).toBe("box h0, open, 6 nodes");
  expect(store.selected).toEqual({ kind: "scope", stage: 0, path: "h0" });
  press("Escape");
  expect(store.selected).toBeNull();
});

test("at the end of the ways it says so", () => {
  show({ ...SIMPLE, stages: SIMPLE.stages.slice(0, 1) });
  store.select({ kind: "node", stage: 0, ids: [1] });
  press("ArrowUp");
  expect(said).toEqual(["Nothing further there"]);
  press("ArrowRight");
  expect(active()).toBe("y input f32[4]");
  press("ArrowDown");
  expect(active()).toBe("mul %5 f32[4], reads %4 and y, retrieved");
});

test("a tap selects, with Shift several; a double tap opens; beside everything it selects nothing", () => {
  show({ ...SIMPLE, stages: SIMPLE.stages.slice(0, 1) });
  tap(...whereIs(5));
  expect(store.selected).toEqual({ kind: "node", stage: 0, ids: [5] });
  tap(...whereIs(4), { shiftKey: true });
  expect(store.selected).toEqual({ kind: "node", stage: 0, ids: [5, 4] });
  tap(...whereIs(5), { shiftKey: true });
  expect(store.selected).toEqual({ kind: "node", stage: 0, ids: [4] });
  tap(1, 1);
  expect(store.selected).toBeNull();
  graph.dispose();
  show({ ...blocks(2), open: ["h0"] });
  const box = [...graph.element.querySelectorAll(".ll-name")].find((one) => one.textContent === "h1")!;
  const [x, y] = [Number(box.getAttribute("x")) * graph.camera.scale + graph.camera.x, Number(box.getAttribute("y")) * graph.camera.scale + graph.camera.y];
  tap(x, y);
  expect(store.selected).toEqual({ kind: "scope", stage: 0, path: "h1" });
  tap(x, y);
  expect(store.open.has("h1")).toBe(true);
});

test("what only the graph before has is selected in that one", () => {
  show(SIMPLE, { stage: 1 }, { side: "both" });
  tap(...whereIs(4));
  expect(store.selected).toEqual({ kind: "node", stage: 0, ids: [4] });
  graph.dispose();
  show(SIMPLE, { stage: 1 }, { side: "before" });
  tap(...whereIs(5));
  expect(store.selected).toEqual({ kind: "node", stage: 0, ids: [5] });
});

test("the selection has a ring, its relatives another, its wires are lit", () => {
  show(SIMPLE, { stage: 3 });
  store.select({ kind: "node", stage: 0, ids: [5] });
  expect([count(".ll-ring"), count(".ll-near")]).toEqual([0, 1]);
  store.select({ kind: "node", stage: 3, ids: [7] });
  expect([count(".ll-ring"), count(".ll-near")]).toEqual([1, 0]);
  expect(graph.element.querySelector(".ll-lit")!.getAttribute("d")!.match(/M/g)!.length).toBe(2);
  store.select({ kind: "line", origin: 2 });
  expect(count(".ll-near")).toBe(1);
  store.select(null);
  expect([count(".ll-ring"), count(".ll-near"), count(".ll-lit")]).toEqual([0, 0, 0]);
});

test("a closed box is related to what is in it", () => {
  show({ ...blocks(2), open: ["h0"] });
  store.select({ kind: "node", stage: 0, ids: [11] });
  expect([count(".ll-ring"), count(".ll-near")]).toEqual([0, 1]);
  graph.focus(store.run.rowsOf(13)[0]!);
  expect([...store.open].sort()).toEqual(["h0", "h1", "h1.mlp"]);
  expect(count(".ll-ring")).toBe(1);
});

test("hovering tells everybody, and shows all that is known", () => {
  show({ ...SIMPLE, stages: SIMPLE.stages.slice(0, 1) });
  const [x, y] = whereIs(4);
  graph.element.dispatchEvent(new PointerEvent("pointermove", { clientX: x, clientY: y }));
  expect(store.hovered).toEqual({ kind: "node", stage: 0, ids: [4] });
  expect(graph.element.querySelector("title")!.textContent).toBe("%4 = add(%1, %3) : f32[4]\ncell 1, line 2: z = x + 0");
  expect(graph.element.querySelector(".ll-at")!.getAttribute("d")).not.toBe("");
  graph.element.dispatchEvent(new PointerEvent("pointerleave"));
  expect(store.hovered).toBeNull();
  expect(graph.element.querySelector(".ll-at")!.getAttribute("d")).toBe("");
});

test("an overlay is a bar, a tint and words, and pales the rest", () => {
  show({ ...blocks(2), open: ["h0"] });
  const overlay: Overlay = {
    name: "flops", legend: [], heat: (row) => (row === 1 ? 0.5 : null), text: (row) => (row === 1 ? "5 flop" : ""),
    inBox: (rows) => ({ heat: 1, text: `${rows.length} of them` }),
  };
  store.setOverlay(overlay);
  graph.flush();
  expect(texts(".ll-below").sort()).toEqual(["3 of them", "5 flop", "6 of them", "f32[4]", "f32[4]", "f32[4]"]);
  expect(count("rect[height='3']")).toBe(3);
  expect(count(".ll-pale")).toBe(3);
  store.setOverlay(null);
  graph.flush();
  expect(count(".ll-pale")).toBe(0);
});

test("far out there are shapes alone, of many things one path", () => {
  show(blocks(12));
  store.setOpen(new Set(store.run.viewOf(0).boxes.map(({ path }) => path)));
  graph.camera = { x: 20, y: 0, scale: 0.05 };
  graph.flush();
  expect(count(".ll-below")).toBe(0);
  expect(count("*")).toBeLessThan(250);
  graph.camera = { x: 20, y: 0, scale: 1 };
  graph.flush();
  expect(texts(".ll-below").length).toBeGreaterThan(2);
});

test("what is far from sight is not there", () => {
  show(blocks(200, 1));
  graph.camera = { x: 0, y: 0, scale: 1 };
  graph.flush();
  expect(names()).toContain("h0");
  expect(names().length).toBeLessThan(70);
  graph.camera = { x: 0, y: -10000, scale: 1 };
  graph.flush();
  expect(names()).not.toContain("h0");
  expect(names().length).toBeGreaterThan(10);
});

test("pictures move together: who is led tells nobody", () => {
  show({ ...SIMPLE, stages: SIMPLE.stages.slice(0, 1) });
  const heard = vi.fn(), stop = graph.onCamera(heard);
  graph.camera = { x: 1, y: 2, scale: 1.5 };
  expect(heard).not.toHaveBeenCalled();
  graph.zoom(2);
  expect(heard).toHaveBeenLastCalledWith(graph.camera);
  expect(graph.camera.scale).toBe(3);
  stop();
  press("0", "-", "f");
  expect(heard).toHaveBeenCalledTimes(1);
  expect(graph.camera.scale).toBe(1.2);
});

test("a box stays where it is when it opens", () => {
  show({ ...blocks(3), open: ["h0"] });
  graph.camera = { x: 40, y: -800, scale: 1 };
  graph.flush();
  const top = () => {
    const title = [...graph.element.querySelectorAll(".ll-title,.ll-name")].find((one) => one.textContent === "h1")!;
    const own = /translate\(([-\d.]+) ([-\d.]+)\)/.exec(title.getAttribute("transform") ?? title.closest("[transform]")!.getAttribute("transform")!)!;
    return (Number(own[2]) + Number(title.getAttribute("y")) - (title.classList.contains("ll-title") ? -13 : 18.5 + 0)) * graph.camera.scale + graph.camera.y;
  };
  const before = top();
  store.setOpen(new Set(["h0", "h1"]));
  graph.flush();
  // The title of an open box is measured from what is in it, 30 below its top.
  expect(top() - 30).toBeCloseTo(before, 0);
});

test("another bundle, another view: the picture follows", () => {
  show(SIMPLE, { stage: 0 });
  store.go({ stage: 3 });
  graph.flush();
  expect(names()).toEqual(["+ call%7", "x", "y"]);
  store.setBundle(made(blocks(1)));
  graph.flush();
  expect(names()).toContain("tokens");
});

test("texts are texts, whatever is in them", () => {
  const hostile = "<img src=x onerror=alert(1)>";
  show({ stages: [{ title: "x", nodes: [{ id: 1, op: hostile, name: hostile, scope: "" }, { id: 2, op: "mul", reads: [1], scope: "<b>" }] }], open: ["<b>"] });
  expect(names().filter((name) => name?.startsWith(hostile)).length).toBe(1);
  expect(graph.element.querySelector("img,b")).toBeNull();
});
