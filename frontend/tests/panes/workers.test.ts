// @vitest-environment jsdom
import { expect, test } from "vitest";
import { workers } from "../../src/panes/workers";
import { waiting } from "../../src/panes/workerlanes";
import { opened, silent, texts } from "../rich";
import { MESH, PIPELINE } from "../spreads";

const pane = (live = silent) => (store: Parameters<typeof workers>[0], host: HTMLElement) => workers(store, host, live);

test("the mesh, a lane a worker, hatched bubbles, a line where all have come, and what is sent and why", () => {
  const { host } = opened(pane(), {}, MESH);
  expect(host.querySelector(".ll-workers-head")!.textContent).toBe("2 workers: model 21 collective; each worker sends 128 B in a runlast run: 4.00 ms, 25 % of it waiting at 1 collective");
  expect(host.querySelectorAll(".ll-workers-lanes .ll-bubble").length).toBe(2);
  expect(host.querySelectorAll(".ll-turn.ll-compute").length).toBe(3); // two, and the key
  expect(host.querySelectorAll(".ll-meets circle").length).toBe(2);
  expect(host.querySelector(".ll-lanes-key")!.textContent).toContain("threads of one process");
  const line = host.querySelector(".ll-meets .ll-join")!;
  expect([line.getAttribute("x1"), line.getAttribute("y1"), line.getAttribute("y2")]).toEqual(["75.000%", "13", "53"]);
  expect(texts(host, ".ll-sent-row > span")).toEqual(["all_reduce of %4 over model", "128 B", "each has a term of %4"]);
});
test("a collective in the lanes, and its row, select the node and light up with it", () => {
  const { store, host } = opened(pane(), {}, MESH);
  const meets = host.querySelector(".ll-meets")!;
  meets.dispatchEvent(new MouseEvent("click"));
  expect(store.selected).toEqual({ kind: "node", stage: 1, ids: [5] });
  expect(meets.classList.contains("ll-lit")).toBe(true);
  expect(host.querySelector(".ll-lit .ll-sent-row")).not.toBe(null);
  store.select({ kind: "node", stage: 1, ids: [1] });
  expect(meets.classList.contains("ll-lit")).toBe(false);
});
test("a pipeline says how much is bubbles, and the formula", () => {
  const { host } = opened(pane(), {}, PIPELINE);
  expect(host.querySelector(".ll-workers-head")!.textContent).toContain("3.00 ms, 33 % bubbles; 33 % if stages took equally long");
  expect(texts(host, ".ll-workers-lanes > svg text")).toEqual(["F0", "F1", "F0", "F1", "E"]);
  expect(host.querySelector(".ll-lanes-key")!.textContent).toContain("processes, whose clocks are known to ± 4.00 µs");
  expect(texts(host, ".ll-sent-row > span")[0]).toBe("%4 to stage 1");
  host.querySelector(".ll-meets")!.dispatchEvent(new MouseEvent("click"));
  expect(host.querySelector(".ll-meets")!.classList.contains("ll-lit")).toBe(true);
});
test("nothing waits where nothing is", () => expect(waiting({ workers: 1, microbatches: 0, work: [], sent: [], met: [], within: null })).toEqual({ seconds: 0, share: 0 }));
test("one worker", () => expect(opened(pane(), {}, { stages: MESH.stages }).host.textContent).toContain("This run has one worker."));
