// @vitest-environment jsdom
// The panel: everything that is known of what is selected, and links to what it has to do with.

import { beforeEach, expect, test } from "vitest";
import { withoutKernel } from "../../src/data/live";
import { side } from "../../src/panes/side";
import { Store } from "../../src/data/store";
import { SIMPLE } from "../graphs";
import { made } from "../made";
import { MESH } from "../spreads";

let store: Store, host: HTMLElement;

beforeEach(() => {
  store = new Store(made(SIMPLE), { stage: 0 });
  host = document.createElement("div");
  side(store, host, withoutKernel());
});

const facts = () => Object.fromEntries([...host.querySelectorAll("dt")].map((name) => [name.textContent, name.nextElementSibling!.textContent]));
const under = (title: string) => [...host.querySelectorAll("h3")].find((one) => one.textContent === title)?.nextElementSibling?.textContent;
const part = (title: string) => {
  const head = [...host.querySelectorAll("h3")].find((one) => one.textContent === title);
  const found: string[] = [];
  for (let next = head?.nextElementSibling; next && next.tagName !== "H3"; next = next.nextElementSibling) found.push(next.textContent!);
  return found;
};
const press = (words: string) => [...host.querySelectorAll("button")].find((one) => one.textContent === words)!.click();

test("without a selection it is about the graph", () => {
  expect(host.querySelector("h2")!.textContent).toBe("simple");
  expect(host.querySelector("p")!.textContent).toBe("5 nodes as written. Select one to see what is known of it.");
  expect(facts()).toMatchObject({ inputs: "2", outputs: "%5 mul f32[4]", input: "2", add: "1" });
});

test("a node: text, type, line, sources, readers, launch and story", () => {
  store.select({ kind: "node", stage: 0, ids: [4] });
  expect(host.querySelector("h2")!.textContent).toBe("%4 · add");
  expect(host.querySelector("pre")!.textContent).toBe("%4 = add(%1, %3) : f32[4]");
  expect(facts()).toMatchObject({ shape: "[4]", dtype: "f32", kind: "op", "written at": "cell 1, line 2: z = x + 0", flops: "3 flop", bytes: "48 B read and written" });
  expect(part("Reads")).toEqual(["%x input f32[4]", "%3 constant f32[4]"]);
  expect(part("Read by")).toEqual(["%5 mul f32[4]"]);
  expect(part("Runs in")).toEqual(["product, kernel product"]);
  expect([...host.querySelectorAll("li")].map((one) => one.textContent)).toEqual(["as written", "simplify: taken out by add-zero, adding nothing changes nothing" + "became %5 mul f32[4]"]);
  expect(under("Values")).toContain("needs a kernel");
});

test("a change of layout computes nothing, and sends", () => {
  const spread = document.createElement("div"), mesh = new Store(made(MESH), { stage: 1 });
  side(mesh, spread, withoutKernel());
  mesh.select({ kind: "node", stage: 1, ids: [5] });
  expect(spread.textContent).toContain("sends128 B from each worker; it computes nothing");
  expect(spread.textContent).not.toContain("flops");
});
test("links select, and go to the pass", () => {
  store.select({ kind: "node", stage: 0, ids: [4] });
  press("%x");
  expect(store.selected).toEqual({ kind: "node", stage: 0, ids: [1] });
  store.select({ kind: "node", stage: 0, ids: [4] });
  press("cell 1, line 2: z = x + 0");
  expect(store.selected).toEqual({ kind: "line", origin: 1 });
  store.select({ kind: "node", stage: 0, ids: [4] });
  press("simplify");
  expect(store.place.stage).toBe(1);
});

test("a node that is not in the graph at hand says what became of it", () => {
  store.select({ kind: "node", stage: 0, ids: [4] });
  store.go({ stage: 1 });
  expect(host.querySelector(".ll-sorry")!.textContent).toBe("It is not in the graph after simplify. There it is %x input f32[4]");
});

test("a line, a kernel, a rule: what they are and the nodes they have to do with", () => {
  store.select({ kind: "line", origin: 2 });
  expect([host.querySelector("h2")!.textContent, part("Nodes as written")]).toEqual(["cell 2, line 1: z * y", ["%5 mul f32[4]"]]);
  store.select({ kind: "kernel", kernel: 0 });
  expect(host.querySelector("h2")!.textContent).toBe("kernel product");
  store.select({ kind: "rule", rule: "add-zero" });
  expect(host.querySelector("h2")!.textContent).toBe("rule add-zero");
});

test("several nodes are summed up", () => {
  store.select({ kind: "node", stage: 0, ids: [4, 5] });
  expect(host.querySelector("h2")!.textContent).toBe("2 nodes");
});

test("while it is hidden it does nothing, and catches up", () => {
  host.hidden = true;
  store.select({ kind: "node", stage: 0, ids: [4] });
  expect(host.querySelector("h2")!.textContent).toBe("simple");
  host.hidden = false;
  host.dispatchEvent(new Event("ll-shown"));
  expect(host.querySelector("h2")!.textContent).toBe("%4 · add");
});

test("a hostile name, scope and line are text", () => {
  const evil = "<img src=x onerror=alert(1)>";
  const bundle = made({ origins: [{ file: evil, line: 1, code: evil }], stages: [{ title: "as written", nodes: [{ id: 1, op: evil, name: evil, scope: evil, origin: 0, rule: evil, type: evil }], outputs: [1] }] });
  const own = document.createElement("div");
  const hostile = new Store(bundle);
  side(hostile, own, withoutKernel());
  hostile.select({ kind: "node", stage: 0, ids: [1] });
  expect(own.querySelector("img")).toBe(null);
  expect(own.textContent).toContain(`%${evil} · ${evil}`);
});
