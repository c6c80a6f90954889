// @vitest-environment jsdom
import { expect, test } from "vitest";
import { Stepper } from "../../src/panes/stepper";
import { NO_KERNEL, type Live } from "../../src/data/live";
import { laid, rules } from "../../src/panes/rules";
import { answering, FACTS, named, opened, settled, silent, texts } from "../rich";

const on = (stage: number, live: Live = silent) =>
  opened((store, host) => rules(store, host, host, live, new Stepper(store)), { stage });

test("a sketch: what is read stands above, and nothing overlaps", () => {
  const label = "a rather long name";
  const nodes = laid({ nodes: [{ label: "x", reads: [] }, { label: "y", reads: [] }, { label: "z", reads: [] }, { label, reads: [0, 1] }, { label, reads: [0, 2] }, { label: "add", reads: [3, 4] }], root: 5 });
  expect(nodes.length).toBe(6);
  for (const one of nodes) {
    for (const read of one.reads) expect(read.y).toBeLessThan(one.y);
    for (const other of nodes) if (other !== one && other.y === one.y) expect(Math.abs(other.x - one.x)).toBeGreaterThanOrEqual((one.width + other.width) / 2);
  }
});
test("a damaged sketch, with a cycle or a node that is not there, is drawn as far as it goes", () => {
  expect(laid({ nodes: [{ label: "a", reads: [1, 9] }, { label: "b", reads: [0] }], root: 0 }).map((one) => one.label)).toEqual(["b", "a"]);
  expect(laid({ nodes: [], root: 3 })).toEqual([]);
});
test("what the rule of a firing says", () => {
  const { store, host } = on(1);
  store.select({ kind: "firing", stage: 1, firing: 0 });
  expect(host.querySelector("select")!.value).toBe("add-zero");
  expect(texts(host, "pre")).toEqual(["x + 0 → x", 'Rule("add-zero", x + 0, x)']);
  expect(host.querySelector("summary")!.textContent).toBe("source: simplify.py, line 7");
  expect([...host.querySelectorAll("svg")].map((one) => one.getAttribute("aria-label"))).toEqual(["what it looks for: x, 0, add", "what it puts there: x"]);
  expect(host.textContent).toContain("assumes: no_signed_zero");
});
test("a step without a rule of its own", () => {
  const { store, host } = on(1);
  store.select({ kind: "rule", rule: "unused" });
  expect(host.textContent).toContain("unused is a step of the pass itself, and has no text.");
});
test("a step that has the name of another pass's is told as this pass's", () => {
  const { store, host } = on(1);
  const known = store.run.facts.rules as Record<string, unknown>;
  known[`${store.run.stages[1]!.name}/add-zero`] = { ...store.run.facts.rules["add-zero"]!, text: "a step of this pass" };
  store.select({ kind: "rule", rule: "add-zero" });
  expect(texts(host, "pre")[0]).toBe("a step of this pass");
});
test("refusals, with their reasons", () => {
  const { store, host } = on(1);
  (store.run.stages[1] as { refusals: unknown }).refusals = [4, 5].map((node) => ({ rule: "cancel", node, because: "x may be 0", needs: ["nonzero"] }));
  store.go({ stage: 3 });
  store.go({ stage: 1 });
  const choice = host.querySelector("select")!;
  expect([...choice.querySelectorAll("optgroup")].map((one) => `${one.label}: ${one.textContent}`)).toContain("refused in this pass: cancel");
  choice.value = "cancel";
  choice.dispatchEvent(new Event("change"));
  expect(host.textContent).toContain("refused ×2: x may be 0 (needs nonzero) at %4 %5");
  named(host, "%4").click();
  expect(store.selected).toEqual({ kind: "node", stage: 0, ids: [4] });
});
test("why not: first a node, then the kernel", async () => {
  const live = answering({ text: "There is no 0 here." }, new Error("It is busy."));
  const { store, host } = on(1, live);
  const ask = async () => {
    named(host, "at the node that is selected; asks the kernel").click();
    await settled();
    return host.querySelector("[role=status]")!.textContent;
  };
  expect(await ask()).toBe("Select a node first: a rule fires at a node.");
  store.select({ kind: "node", stage: 0, ids: [5] });
  expect(await ask()).toBe("There is no 0 here.");
  expect(live.asked).toEqual([{ ask: "why_not", run: 0, stage: 1, rule: host.querySelector("select")!.value, id: 5 }]);
  expect(await ask()).toBe("It is busy.");
});
test("without a kernel it says so", async () => {
  const { store, host } = on(1);
  store.select({ kind: "node", stage: 0, ids: [5] });
  named(host, "at the node that is selected; asks the kernel").click();
  await settled();
  expect(host.querySelector("[role=status]")!.textContent).toBe(NO_KERNEL);
});
test("markup in a rule is text", () => {
  const hostile = "<img src=x onerror=alert(1)>";
  (FACTS.rules as Record<string, unknown>)["unused"] = { text: hostile, source: hostile, file: hostile, line: 1, because: hostile, needs: [hostile], left: { nodes: [{ label: hostile, reads: [] }], root: 0 }, right: null };
  const { store, host } = on(1);
  store.select({ kind: "rule", rule: "unused" });
  expect(host.querySelector("img")).toBeNull();
  expect(host.textContent).toContain(hostile);
  delete (FACTS.rules as Record<string, unknown>)["unused"];
});
