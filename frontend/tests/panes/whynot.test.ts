// @vitest-environment jsdom
import { expect, test } from "vitest";
import { askSmallest, linked, questions } from "../../src/panes/whynot";
import { h } from "../../src/parts/dom";
import type { Reply } from "../../src/data/live";
import { answering, FACTS, named, opened, RICH, settled } from "../rich";

const on = (...replies: (Reply | Error)[]) => {
  const live = answering(...replies);
  return { live, ...opened((store, host) => (host.append(h("div", null, questions(store, live, 5))), { dispose: () => undefined }), { stage: 1 }) };
};

test("a node is asked why a rule, a search or a schedule found nothing there", async () => {
  const { host, live, store } = on({ text: "softmax stops at once: %4 is mul, not recip." });
  const choice = host.querySelector("select")!;
  expect([...choice.options].map((one) => one.value)).toEqual(["schedule", "add-zero"]);
  choice.value = "add-zero";
  choice.dispatchEvent(new Event("change"));
  named(host, "why it found nothing at this node; asks the kernel").click();
  await settled();
  expect(live.asked).toEqual([{ ask: "why_not", run: 0, stage: 1, rule: "add-zero", id: 5 }]);
  expect(host.querySelector("[role=status]")!.textContent).toBe("softmax stops at once: %4 is mul, not recip.");
  host.querySelector<HTMLElement>(".ll-answer .ll-link")!.click();
  expect(store.selected).toMatchObject({ kind: "node", ids: [4] });
});
test("passes that answer are asked by name, before their rules", () => {
  const { host } = opened((store, at) => (at.append(h("div", null, questions(store, answering(), 5))), { dispose: () => undefined }), { stage: 1 }, { ...RICH, facts: { ...FACTS, askable: ["fold", "add-zero"] } });
  expect([...host.querySelector("select")!.options].map((one) => one.value)).toEqual(["schedule", "fold", "add-zero"]);
});
test("the smallest graph comes with a test, and markup in them is text", async () => {
  const { host } = on({ text: "3 → 2 nodes", graph: "<b>graph</b>", test: "def test_<i>(): pass" });
  named(host, "the smallest graph that still shows it; asks the kernel").click();
  await settled();
  expect(host.querySelector("b, i")).toBeNull();
  expect([...host.querySelectorAll("pre")].map((one) => one.textContent)).toEqual(["<b>graph</b>", "def test_<i>(): pass"]);
});
test("names of no node are no links", () => {
  const { store } = on();
  expect(linked(store, "at %nothing, 5% of it")).toEqual(["at ", "%nothing", ", 5% of it"]);
});
test("what the kernel cannot do it says", async () => {
  const { live, store } = on(new Error("the graph does not show it"));
  const note = h("div");
  await askSmallest(store, live, note, "add-zero", 5);
  expect(note.textContent).toBe("the graph does not show it");
});
