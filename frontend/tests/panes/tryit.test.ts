// @vitest-environment jsdom
import { expect, test } from "vitest";
import { tryIt } from "../../src/panes/tryit";
import { answering, named, opened, settled, silent, texts } from "../rich";
import { MESH, PIPELINE } from "../spreads";

const pane = (live = silent) => (store: Parameters<typeof tryIt>[0], host: HTMLElement) => (tryIt(store, host, live), { dispose: () => undefined });

test("another annotation, and what would be sent", async () => {
  const live = answering({ sent: [[-1, "all_gather", "model", "w", 32, "%3 mul needs axis 1 whole"]] }), { host } = opened(pane(live), {}, MESH);
  expect(texts(host, ".ll-mono")).toEqual(["x: [8, 4]", "w: [4, 4]"]);
  const select = host.querySelector<HTMLSelectElement>("[aria-label='axis 0 of w']")!;
  expect([...select.options].map(({ text }) => text)).toEqual(["whole", "model"]);
  host.querySelector<HTMLSelectElement>("[aria-label='axis 1 of w']")!.value = "-";
  select.value = "model";
  select.dispatchEvent(new Event("change"));
  await settled();
  expect(live.asked).toEqual([{ ask: "what_if", run: 0, changed: { w: ["model", "-"] } }]);
  expect(host.querySelector(".ll-tried")!.textContent).toBe("128 B → 32 B from each worker in a run −96 Ball_gather of w over model, 32 B: %3 mul needs axis 1 whole");
  named(host, "As it was").click();
  expect(host.querySelector(".ll-tried")).toBe(null);
});
test("what cannot be is a sentence", async () => {
  const { host } = opened(pane(answering(new Error("x: its size is 3"))), {}, MESH), select = host.querySelector("select")!;
  select.value = "model";
  select.dispatchEvent(new Event("change"));
  await settled();
  expect(host.querySelector(".ll-sorry")!.textContent).toBe("x: its size is 3");
});
test("a page without a kernel says so, and a pipeline has nothing to try", () => {
  expect(opened(pane(), {}, MESH).host.textContent).toContain("This needs a kernel");
  expect(opened(pane(), {}, PIPELINE).host.textContent).toBe("");
});
