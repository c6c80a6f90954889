// @vitest-environment jsdom
import { expect, test } from "vitest";
import { NO_KERNEL } from "../../src/data/live";
import { source } from "../../src/panes/source";
import { SIMPLE } from "../graphs";
import { answering, named, opened, press, settled, silent, texts } from "../rich";

const tab = (host: Element, words: string) => [...host.querySelectorAll<HTMLElement>("[role=tab]")].find((one) => one.textContent === words)!;
const lines = (host: Element) => texts(host, "[role=option] > span:last-child");

test("lines of C, those with nodes told apart", () => {
  const { host } = opened((store, at) => source(store, at, silent));
  expect(lines(host)).toEqual(["a", "b", "c"]);
  expect(texts(host, ".ll-known > span:last-child")).toEqual(["a", "b", "c"]);
});
test("a line selects its nodes, and nodes light their lines", () => {
  const { store, host } = opened((store, at) => source(store, at, silent));
  host.querySelector<HTMLElement>("[role=option]")!.click();
  expect(store.selected).toEqual({ kind: "source", kernel: 0, dialect: "c", line: 1 });
  store.select({ kind: "node", stage: 0, ids: [5] });
  expect(texts(host, ".ll-lit > span:last-child")).toContain("b");
});
test("arrow keys go from language to language; resources stand above", () => {
  const { host } = opened((store, at) => source(store, at, silent));
  press(host.querySelector("[role=tablist]")!, "ArrowRight");
  expect(tab(host, "CUDA").getAttribute("aria-selected")).toBe("true");
  expect(lines(host)).toEqual(["__global__ void product() {}"]);
  expect(host.querySelector(".ll-facts")!.textContent).toBe("registers 12shared bytes 1,024");
});
test("what its launches took on each device that runs the source stands above", () => {
  const { host } = opened((store, at) => source(store, at, silent));
  expect(texts(host, ".ll-took-by > strong")).toEqual(["1.00 µs"]);
  expect(host.querySelector(".ll-took-by")!.textContent).toContain("this CPU1.00 µsmeasured here · 50 % of roof (memory)");
  tab(host, "CUDA").click();
  expect(host.querySelector(".ll-took-by")!.textContent).toMatch(/^T4.*H200/);
  tab(host, "PTX").click();
  expect(texts(host, ".ll-took-by > strong")).toEqual(["2.00 µs", "1.00 µs"]);
  tab(host, "Metal").click();
  expect(host.querySelector(".ll-took-by")).toBe(null);
});
test("another language keeps the line: that of the same nodes", () => {
  const { store, host } = opened((store, at) => source(store, at, silent));
  const all = store.run.facts.kernels[0]!.sources[0]!.lines.find(([, ids]) => ids.includes(7))!;
  store.select({ kind: "source", kernel: 0, dialect: "c", line: all[0] });
  tab(host, "CUDA").click();
  expect(store.selected).toEqual({ kind: "source", kernel: 0, dialect: "cuda", line: 1 });
  expect(texts(host, ".ll-lit > span:last-child")).toEqual(["__global__ void product() {}"]);
  tab(host, "C").click();
  expect(store.selected).toEqual({ kind: "source", kernel: 0, dialect: "c", line: all[0] });
  // Where nothing is known of lines what is selected stays as it is.
  tab(host, "PTX").click();
  expect(store.selected).toMatchObject({ dialect: "c" });
});
test("a language that is not there can be asked for", async () => {
  const live = answering({ text: "done" });
  const { host } = opened((store, at) => source(store, at, live));
  tab(host, "Metal").click();
  named(host, "write the Metal; no such device is needed").click();
  await settled();
  expect(live.asked).toEqual([{ ask: "sources", run: 0, dialect: "metal", kernel: 0 }]);
});
test("PTX on request", async () => {
  const live = answering({ text: "ld.param.u64 %rd1;", resources: { registers: 40 } });
  const { host } = opened((store, at) => source(store, at, live));
  tab(host, "PTX").click();
  named(host, "compile to PTX; no such device is needed").click();
  await settled();
  expect(lines(host)).toEqual(["ld.param.u64 %rd1;"]);
  expect(host.querySelector(".ll-facts")!.textContent).toBe("registers 40");
  host.querySelector<HTMLElement>("[role=option]")!.click(); // no node is behind it
});
test("without a kernel it says so", async () => {
  const { host } = opened((store, at) => source(store, at, silent));
  tab(host, "PTX").click();
  named(host, "compile to PTX; no such device is needed").click();
  await settled();
  expect(host.querySelector(".ll-sorry")!.textContent).toBe(NO_KERNEL);
});
test("the selection brings its kernel and language", () => {
  const { store, host } = opened((store, at) => source(store, at, silent));
  store.select({ kind: "launch", launch: 1 });
  expect(host.querySelector("select")!.value).toBe("1");
  store.select({ kind: "source", kernel: 0, dialect: "cuda", line: 1 });
  expect(lines(host)).toEqual(["__global__ void product() {}"]);
  expect(texts(host, ".ll-lit").length).toBe(1);
});
test("a run without kernels says how to get some", () => {
  const { host } = opened((store, at) => source(store, at, silent), {}, { ...SIMPLE, facts: {} });
  expect(host.querySelector(".ll-note")!.textContent).toMatch(/^There are no kernels in this run: compile for a device/);
});
