// @vitest-environment jsdom
import { expect, test, vi } from "vitest";
import { timed, times } from "../../src/panes/times";
import { SIMPLE } from "../graphs";
import { FACTS, named, opened, RICH, texts } from "../rich";

test("the slowest first, or in order; a device without a time leaves a gap", () => {
  expect(timed(FACTS.times!, true).map((line) => line.launch)).toEqual([1, 0]);
  expect(timed(FACTS.times!, false).map((line) => line.of.map((one) => one?.median ?? null))).toEqual([[1e-6, 2e-6, 1e-6], [5e-6, null, 1e-6]]);
});
test("how each was got is in its shape and in words", () => {
  const { host } = opened(times);
  expect([...host.querySelector("[role=option]")!.querySelectorAll("svg")].map((one) => one.getAttribute("aria-label"))).toEqual(["measured here", "recorded elsewhere", "modelled, not run"]);
  expect(host.querySelectorAll(".ll-totals > span .ll-measured, .ll-totals > span .ll-recorded, .ll-totals > span .ll-modelled").length).toBe(3);
  expect(texts(host, ".ll-totals strong")).toEqual(["6.00 µs", "2.00 µs", "2.00 µs"]);
  expect(host.textContent).toContain("5.00 µs · 50 % of roof (memory)");
  expect(host.textContent).toContain("no time");
});
test("the lane of a timed run has Python, calls, kernels and gaps, each where it was", () => {
  const { store, host } = opened(times);
  const [lane] = host.querySelectorAll(".ll-lane");
  const rects = [...lane!.querySelectorAll("rect")];
  const place = (one: Element) => ["x", "width"].map((name) => Math.round(Number(one.getAttribute(name))));
  expect(rects.map((one) => [one.getAttribute("data-launch") ?? one.getAttribute("class"), ...place(one)])).toEqual([
    ["ll-in-python", 0, 1000], ["ll-launching", 200, 700], ["ll-gap", 0, 300], ["0", 300, 100], ["1", 400, 500], ["ll-gap", 900, 100],
  ]);
  expect(lane!.getAttribute("aria-label")).toBe("this CPU, one run: Python 10.0 µs, calls that launch 7.00 µs, kernels 6.00 µs, gaps, in which no kernel runs 4.00 µs");
  rects[4]!.dispatchEvent(new MouseEvent("click", { bubbles: true }));
  expect(store.selected).toEqual({ kind: "launch", launch: 1 });
  expect(rects[4]!.classList.contains("ll-lit")).toBe(true);
  expect(host.querySelector(".ll-lane-key")!.textContent).toContain("Python 10.0 µscalls that launch 7.00 µskernels 6.00 µsgaps, in which no kernel runs 4.00 µs");
});
test("where only kernels were timed they stand side by side", () => {
  const { host } = opened(times, {}, { ...RICH, facts: { ...FACTS, times: [FACTS.times![2]!] } });
  expect([...host.querySelectorAll(".ll-lane rect")].map((one) => one.getAttribute("data-launch"))).toEqual(["0", "1"]);
  expect(host.querySelector(".ll-lane-key")).toBe(null);
});
test("where there is room devices are columns", () => {
  const width = vi.spyOn(HTMLElement.prototype, "clientWidth", "get").mockReturnValue(900);
  const { host } = opened(times);
  expect(host.querySelectorAll(".ll-table").length).toBe(2);
  expect(texts(host, ".ll-table:first-child > div > span")[0]).toBe("5.00 µs · 50 % of roof");
  width.mockRestore();
});
test("the order changes by a button", () => {
  const { host } = opened(times);
  expect(texts(host, "[role=option] b")).toEqual(["1: other", "0: product"]);
  named(host, "slowest first, or in the order of the program").click();
  expect(texts(host, "[role=option] b")).toEqual(["0: product", "1: other"]);
});
test("bars and points select the launch, and light up with it", () => {
  const { store, host } = opened(times);
  host.querySelector<HTMLElement>("[role=option]")!.click();
  expect(store.selected).toEqual({ kind: "launch", launch: 1 });
  store.select({ kind: "node", stage: 3, ids: [7] });
  expect(texts(host, ".ll-row.ll-lit b")).toEqual(["0: product"]);
  expect([...host.querySelectorAll(".ll-plot .ll-lit")].map((one) => one.getAttribute("data-launch"))).toEqual(["0", "0", "0"]);
  host.querySelector(".ll-plot [data-launch='1']")!.dispatchEvent(new MouseEvent("click"));
  expect(store.selected).toEqual({ kind: "launch", launch: 1 });
});
test("another run has other devices", async () => {
  const { store, host } = opened(times, {}, RICH, { ...RICH, title: "second", facts: { ...FACTS, times: [FACTS.times![0]!] } });
  store.go({ run: 1 });
  await Promise.resolve();
  expect(texts(host, ".ll-totals strong")).toEqual(["6.00 µs"]);
  expect(host.querySelectorAll(".ll-rows").length).toBe(1);
});
test("nobody has timed it", () => {
  const { host } = opened(times, {}, SIMPLE);
  expect(host.textContent).toContain("cx.workbench(cx.time())");
  expect(host.querySelector(".ll-plot")).toBeNull();
});
test("times fold by module, line or kind; a line selects itself", () => {
  const { store, host } = opened(times);
  const choice = host.querySelector<HTMLSelectElement>("select")!;
  choice.value = "kind";
  choice.dispatchEvent(new Event("change"));
  expect(texts(host, "[role=option] b")).toEqual(["other"]);
  expect(host.textContent).toContain("6.00 µs · 100 %");
  choice.value = "line";
  choice.dispatchEvent(new Event("change"));
  expect(texts(host, "[role=option] b").length).toBe(3);
  [...host.querySelectorAll<HTMLElement>("[role=option]")].find((one) => one.textContent.includes("z * y"))!.click();
  expect(store.selected?.kind).toBe("line");
  choice.value = "launch";
  choice.dispatchEvent(new Event("change"));
});
test("a doubt is in sight, and a share above the roof says that it is in doubt", () => {
  const [first] = FACTS.times!;
  const loaded = { ...first!, doubts: ["measured while other programs kept 1.5 cores busy"], rows: first!.rows.map((row) => ({ ...row, share: 1.4 })) };
  const { host } = opened(times, {}, { ...RICH, facts: { ...FACTS, times: [loaded] } });
  expect(texts(host, ".ll-doubts")).toEqual(["⚠ measured while other programs kept 1.5 cores busy"]);
  expect(host.textContent).toContain("140 % of roof (in doubt)");
});
test("a roofline is no wider than its pane, so that its letters keep their size", () => {
  const wide = vi.spyOn(Element.prototype, "clientWidth", "get");
  const width = (given: number): string => (wide.mockReturnValue(given), opened(times).host.querySelector(".ll-plot")!.getAttribute("viewBox")!.split(" ")[2]!);
  expect([900, 380, 200].map(width)).toEqual(["520", "380", "300"]);
  wide.mockRestore();
});
test("each roof has its name, also where a point lies on its end", () => {
  const roofline = [...FACTS.roofline!, { device: "H200", flops: 6.7e13, bytes: 4.8e12, how: "modelled" as const }];
  // 2^31 operations for 2^24 bytes at the peak rate: the point is at the right end of the roof.
  const row = { ...FACTS.times![2]!.rows[0]!, flops: 2 ** 31, bytes: 2 ** 24, median: 2 ** 31 / 6.7e13 };
  const { host } = opened(times, {}, { ...RICH, facts: { ...FACTS, roofline, times: [FACTS.times![0]!, { ...FACTS.times![2]!, rows: [row] }] } });
  const written = texts(host, ".ll-plot text");
  for (const { device } of roofline) expect(written.some((text) => text!.startsWith(`${device}: `)), device).toBe(true);
});
test("points under the roofline have names, and no two texts are in one place", () => {
  const { host } = opened(times);
  const written = [...host.querySelectorAll(".ll-plot text")];
  expect(written.map((one) => one.textContent)).toContain("product");
  const places = written.map((one) => `${one.getAttribute("x")} ${one.getAttribute("y")}`);
  expect(new Set(places).size).toBe(places.length);
});
test("a device whose rates are not known is said to have no roof", () => {
  const { host } = opened(times);
  const known = FACTS.roofline!.map((roof) => roof.device);
  const unknown = FACTS.times!.map(({ device }) => device).filter((device) => !known.includes(device));
  expect(unknown.length).toBeGreaterThan(0);
  expect(host.querySelector(".ll-no-roof")!.textContent).toBe(`no roof for ${unknown.join(", ")}: the rates are not known`);
});
test("in a low pane the roofline has the room of the list, and in a high one stands under it", () => {
  const height = vi.spyOn(HTMLElement.prototype, "clientHeight", "get").mockReturnValue(300);
  const { host } = opened(times);
  const plotted = [...host.querySelectorAll("button")].find((one) => one.textContent === "roofline")!;
  expect([plotted.getAttribute("aria-pressed"), host.classList.contains("ll-plot-alone"), host.querySelector(".ll-plot")]).toEqual(["false", false, null]);
  plotted.click();
  expect([plotted.getAttribute("aria-pressed"), host.classList.contains("ll-plot-alone")]).toEqual(["true", true]);
  plotted.click();
  expect(host.classList.contains("ll-plot-alone")).toBe(false);
  height.mockReturnValue(600);
  plotted.click();
  expect([host.classList.contains("ll-plot-alone"), !!host.querySelector(".ll-plot")]).toEqual([false, true]);
  height.mockRestore();
});
