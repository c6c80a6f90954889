// @vitest-environment jsdom
// A search: who is chosen in the chart, in the list or from Python, and what is said of it.

import { beforeEach, describe, expect, test } from "vitest";
import { withoutKernel, type Live } from "../../src/data/live";
import { search, sign, type Chosen } from "../../src/panes/searchview";
import { packed } from "../made";

const STATES = ["fastest", "default", "slower", "stopped", "refused", "failed"];
const WRONG = "it computes wrong values: <b>c</b>";
const STRINGS = ["", "default", "draw", "split i by 4", "split i by 8", WRONG, "the nest", "the source", "tile = 4", "kernel mm(a: f32[4]) -> (c: f32[4])"];
const MEANING = "kernel mm(a: f32[4]) -> (c: f32[4])";
const KERNEL = { name: "mm", launches: 1, limit: 5e-4, bound: "FMA", unfused: 3 };
const HEADER = { what: "search", title: "<i>mm</i>", headline: ["2 ms → 1 ms"], states: STATES, mark: "", strings: STRINGS, kernels: [KERNEL] };
// The default, a fast one, a wrong one and a slow one.
const COLUMNS = {
  kernel: ["u32", [0, 0, 0, 0]],
  number: ["u32", [0, 1, 2, 3]],
  state: ["u8", [1, 0, 5, 2]],
  seconds: ["f64", [2e-3, 1e-3, NaN, 3e-3]],
  ratio: ["f64", [1, 0.5, NaN, 1.5]],
  why: ["u32", [0, 0, 5, 0]],
  step: ["u32", [0, 0, 4, 0]],
  origin: ["u32", [1, 2, 2, 2]],
  what: ["u32", [1, 8, 2, 2]],
  choices: ["u32", [0, 8, 0, 0]],
  definition: ["u32", [9, 9, 9, 9]],
  schedule: ["u32", [0, 3, 4, 4]],
  nest: ["u32", [0, 6, 0, 0]],
  source: ["u32", [0, 7, 0, 0]],
} as const;
const bytes = packed(HEADER, COLUMNS);

let host: HTMLElement;
const settled = (): Promise<void> => new Promise((done) => setTimeout(done, 10));
const detail = (): string => host.querySelector(".ll-sv-detail")!.textContent!;
const rows = (): string[] => [...host.querySelectorAll(".ll-sv-list .ll-row")].map((row) => row.textContent!);
const picture = (): SVGElement => host.querySelector("svg")!;
const press = (key: string): boolean => picture().dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
const open = (name: string): void => [...host.querySelectorAll<HTMLElement>("[role=tab]")].find((one) => one.textContent === name)!.click();
async function shown(live: Live = withoutKernel(), chosen?: Chosen, data = bytes): Promise<ReturnType<typeof search>> {
  const pane = search(data, host, live, chosen);
  await settled();
  return pane;
}

beforeEach(() => {
  host = document.createElement("div");
  document.body.replaceChildren(host);
});

describe("what is seen", () => {
  test("the best is chosen at first, the fastest come first, and names stay text", async () => {
    await shown();
    expect(detail()).toContain("candidate 1: fastest, 1.00 ms, 0.500 of the default's time");
    expect(rows().map((row) => row.slice(0, 1))).toEqual(["1", "0", "3", "2"]);
    expect(host.querySelector(".ll-sv-said")!.textContent).toBe("search of <i>mm</i>2 ms → 1 ms");
    expect(host.querySelector("i, b")).toBeNull();
  });

  test("each state has its signs, and each line its name", async () => {
    await shown();
    expect(host.querySelector("path.ll-sv-failed")!.getAttribute("d")).toContain("M");
    const names = [...picture().querySelectorAll("text")].map((text) => text.textContent);
    expect(names).toEqual(expect.arrayContaining(["default 2.00 ms", "best 1.00 ms", "apart 3.00 ms", "limit 500 µs", "no time"]));
    expect(host.querySelector(".ll-sv-key")!.textContent).toContain("the machine's limit (FMA)");
    expect(new Set(STATES.map((state) => sign(state, 10, 10))).size).toBe(STATES.length);
  });

  test("in the order of measuring", async () => {
    await shown();
    const order = host.querySelector("select")!;
    order.value = "order";
    order.dispatchEvent(new Event("change"));
    expect(rows().map((row) => row.slice(0, 1))).toEqual(["0", "1", "2", "3"]);
  });
});

describe("who is chosen", () => {
  test("arrow keys go from one to the next in the chart", async () => {
    await shown();
    expect(press("ArrowRight")).toBe(false);
    expect(detail()).toContain(`candidate 2: failed: ${WRONG}`);
    expect(detail()).toContain("from split i by 8 on its values are wrong");
    press("End");
    expect(detail()).toContain("candidate 3: slower");
    press("ArrowRight");
    expect(detail()).toContain("candidate 3: slower");
  });

  test("a row does it, and Python is told and asked", async () => {
    const told: number[] = [];
    await shown(withoutKernel(), { current: () => 3, tell: (at) => void told.push(at) });
    expect(detail()).toContain("candidate 3");
    host.querySelectorAll<HTMLElement>(".ll-sv-list .ll-row")[1]!.click();
    expect(detail()).toContain("candidate 0: default");
    expect(told).toEqual([0]);
  });
});

describe("what is said of it", () => {
  test("schedule, diff to the best, definition", async () => {
    await shown();
    expect(host.querySelector("pre")!.textContent).toBe("split i by 4");
    open("Diff");
    expect(detail()).toContain("from the default to this one");
    press("End");
    expect(detail()).toContain("from the best, candidate 1, to this one");
    expect(host.querySelector(".ll-is-gone")!.textContent).toContain("split i by 4");
    expect(host.querySelector(".ll-is-new")!.textContent).toContain("split i by 8");
    open("Definition");
    expect(host.querySelector("pre")!.textContent).toBe(MEANING);
  });

  test("nest and source are in the page, or the kernel is asked for them", async () => {
    const asked: unknown[] = [];
    const live: Live = {
      ...withoutKernel(),
      hasKernel: true,
      ask: (what, body) => {
        asked.push([what, body]);
        return Promise.resolve({ nest: "its nest", source: "its source" });
      },
    };
    await shown(live);
    open("Source");
    expect(host.querySelector("pre")!.textContent).toBe("the source");
    press("End");
    await settled();
    expect(asked).toEqual([["kernel", { candidate: 3 }]]);
    expect(host.querySelector("pre")!.textContent).toBe("its source");
    open("Nest");
    expect(host.querySelector("pre")!.textContent).toBe("its nest");
    expect(asked.length).toBe(1);
  });

  test("without a kernel that is said", async () => {
    await shown();
    press("End");
    open("Source");
    await settled();
    expect(detail()).toContain("This needs a kernel");
  });
});

describe("while it runs", () => {
  test("more candidates come, and the chosen one stays", async () => {
    const few = Object.fromEntries(Object.entries(COLUMNS).map(([name, [kind, values]]) => [name, [kind, values.slice(0, 2)] as const]));
    const pane = await shown(withoutKernel(), undefined, packed(HEADER, few));
    expect(rows().length).toBe(2);
    host.querySelectorAll<HTMLElement>(".ll-sv-list .ll-row")[1]!.click();
    pane.renew(bytes);
    await settled();
    expect(rows().length).toBe(4);
    expect(detail()).toContain("candidate 0: default");
  });

  test("damaged bytes are refused with a sentence", async () => {
    await shown(withoutKernel(), undefined, bytes.slice(0, 20));
    expect(host.querySelector("[role=alert]")!.textContent).toMatch(/damaged/);
  });
});
