// @vitest-environment jsdom
import { describe, expect, test } from "vitest";
import { lastChange, nextStage, rounds, timeline, told } from "../../src/panes/timeline";
import { SIMPLE } from "../graphs";
import { opened, press, RICH, texts } from "../rich";

const passes = (text: string) => text.split(" ").map((word) => ({ title: word.replace(/\d/, ""), round: Number(/\d/.exec(word)?.[0] ?? 1) }));
const cut = (text: string) => rounds(passes(text)).map(({ round, from, to }) => `${round}:${from}-${to}`);

describe("rounds", () => {
  test("nothing repeated is one stretch", () => expect(cut("written a b c")).toEqual(["0:0-4"]));
  test("a repeated pipeline", () => expect(cut("written a b a2 b2 c")).toEqual(["0:0-1", "1:1-3", "2:3-5", "0:5-6"]));
  test("one that begins and ends with the same pass", () => expect(cut("written a b a a2 b2 a2 c")).toEqual(["0:0-1", "1:1-4", "2:4-7", "0:7-8"]));
  test("one that holds another", () => expect(cut("written a x y a2 x y a3 c")).toEqual(["0:0-1", "1:1-4", "2:4-7", "3:7-8", "0:8-9"]));
  test("two after another", () => expect(cut("w a a2 b b2 b3")).toEqual(["0:0-1", "1:1-2", "2:2-3", "1:3-4", "2:4-5", "3:5-6"]));
});

test("a pass in words", () => {
  const { store } = opened(timeline);
  expect(told(store.run.stages[0]!, 0)).toBe("as written: 5 nodes");
  expect(told(store.run.stages[1]!, 1)).toBe("simplify: 5 → 3 nodes, 2 firings, 1.00 ms; well-formed");
  expect(told(store.run.stages[2]!, 2)).toBe("nothing: without effect, 1.00 ms; well-formed");
  expect(told({ ...store.run.stages[1]!, seconds: 0 }, 1)).toBe("simplify: 5 → 3 nodes, 2 firings");
});
test("each pass is an option, those without effect are told apart", () => {
  const { host } = opened(timeline);
  expect(host.querySelectorAll("[role=option]").length).toBe(4);
  expect(texts(host, ".ll-idle")).toEqual(["nothing"]);
  expect(host.querySelector("[aria-selected=true]")!.textContent).toContain("fuse");
});
test("passes without effect that follow each other are counted together", () => {
  const { host } = opened(timeline);
  expect([...host.querySelectorAll<HTMLElement>(".ll-skipped")].map((one) => [one.dataset["count"], one.childElementCount])).toEqual([["1 idle", 1]]);
});
test("arrows skip what did nothing, with Shift they do not", () => {
  const { store, host } = opened(timeline);
  const list = host.querySelector("[role=listbox]")!;
  press(list, "ArrowLeft");
  expect(store.place.stage).toBe(1);
  press(list, "ArrowRight", { shiftKey: true });
  expect(store.place.stage).toBe(2);
  press(list, "Home");
  expect(store.place.stage).toBe(0);
  press(list, "End");
  expect(store.place.stage).toBe(3);
});
test("End is the last pass that changed the graph, with Shift the last of all", () => {
  const last = SIMPLE.stages[3]!, nodes = [last.nodes[1]!, last.nodes[0]!, last.nodes[2]!];
  const order = { ...RICH, stages: [...SIMPLE.stages, { title: "depth-first", outputs: [7], nodes, firings: [{ rule: "", gone: [], fresh: [] }] }] };
  const { store, host } = opened(timeline, { stage: 0 }, order);
  const list = host.querySelector("[role=listbox]")!;
  press(list, "End");
  expect(store.place.stage).toBe(3);
  press(list, "End", { shiftKey: true });
  expect(store.place.stage).toBe(4);
  expect(store.run.stages[4]!.effect).toBe(true);
});
test("without a change the end is the last pass", () => {
  const { store } = opened(timeline, {}, { ...RICH, stages: [SIMPLE.stages[0]!, { ...SIMPLE.stages[0]!, title: "nothing" }] });
  expect(lastChange(store.run)).toBe(1);
});
test("at the end there is no next one", () => {
  const { store } = opened(timeline);
  expect([nextStage(store.run, 3, 1), nextStage(store.run, 0, -1), nextStage(store.run, 0, 1, true)]).toEqual([3, 0, 1]);
});
test("a click goes there", () => {
  const { store, host } = opened(timeline);
  host.querySelectorAll<HTMLElement>("[role=option]")[1]!.click();
  expect(store.place.stage).toBe(1);
  expect(host.querySelector("[aria-selected=true]")!.textContent).toContain("simplify");
});
test("what happened to the selection is marked", () => {
  const { store, host } = opened(timeline);
  store.select({ kind: "node", stage: 0, ids: [4] });
  expect(host.querySelectorAll(".ll-pass")[1]!.classList).toContain("ll-lit");
});
test("several runs have a choice", () => {
  const { store, host } = opened(timeline, {}, RICH, { ...RICH, title: "second" });
  const choice = host.querySelector("select")!;
  expect(texts(choice, "option")).toEqual(["simple", "second"]);
  choice.value = "1";
  choice.dispatchEvent(new Event("change"));
  expect(store.place.run).toBe(1);
});
