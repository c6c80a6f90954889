// @vitest-environment jsdom
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Pair } from "../../src/graph/pair";
import type { Store } from "../../src/data/store";

interface Seen {
  readonly side: string;
  readonly listeners: ((camera: unknown) => void)[];
  camera: unknown;
}
const seen: Seen[] = [];
vi.mock("../../src/graph/graph", () => ({
  graphView: (_store: unknown, _host: unknown, { side }: { side: string }) => {
    const view = {
      side, amount: "all of it", listeners: [] as ((camera: unknown) => void)[], now: null as unknown,
      get camera() {
        return this.now;
      },
      set camera(camera: unknown) {
        this.now = camera;
        for (const listener of this.listeners) listener(camera);
      },
      onCamera(listener: (camera: unknown) => void) {
        view.listeners.push(listener);
        return () => undefined;
      },
      dispose: () => void seen.splice(seen.indexOf(view), 1),
    };
    seen.push(view);
    return view;
  },
}));
const made = await import("../../src/graph/pair");
const { opened, texts } = await import("../rich");

/** With the ways to show both in the host, as in a bar. */
const pair = (store: Store, host: HTMLElement) => {
  const found = made.pair(store, host);
  host.append(found.modes);
  return found;
};

const ways = (host: Element) => host.querySelector<HTMLSelectElement>(".ll-modes")!;
const choose = (host: Element, way: string) => {
  ways(host).value = way;
  ways(host).dispatchEvent(new Event("change"));
};
beforeEach(() => {
  seen.length = 0;
});
afterEach(() => localStorage.clear());
const sides = () => seen.map((one) => one.side);

test("two pictures, whose cameras go together where places are fixed", () => {
  const { host, pane } = opened(pair, { stage: 1 });
  expect(sides()).toEqual(["before", "after"]);
  expect(texts(host, ".ll-caption")).toEqual(["before simplify: all of it", "after simplify: all of it"]);
  const camera = { x: 1, y: 2, scale: 3 };
  seen[1]!.camera = camera;
  expect([seen[0]!.camera, (pane as Pair).leads().length]).toEqual([null, 2]);
  choose(host, "fixed places");
  seen[1]!.camera = camera;
  expect([seen[0]!.camera, (pane as Pair).leads().length]).toEqual([camera, 1]);
});
test("the graph as written is one picture", () => {
  const { store, host } = opened(pair, { stage: 1 });
  store.go({ stage: 0 });
  expect(sides()).toEqual(["after"]);
  expect(texts(host, ".ll-caption")).toEqual(["as written: all of it"]);
  store.go({ stage: 3 });
  expect(sides()).toEqual(["before", "after"]);
});
test("one over the other, by a slider that the keyboard moves; the choice is remembered", () => {
  const { host, pane } = opened(pair, { stage: 1 });
  choose(host, "slider");
  const slider = host.querySelector<HTMLInputElement>("[type=range]")!;
  slider.value = "30";
  slider.dispatchEvent(new Event("input"));
  expect(host.querySelector<HTMLElement>(".ll-pair")!.style.getPropertyValue("--ll-cut")).toBe("30%");
  pane.dispose();
  expect(ways(opened(pair, { stage: 1 }).host).value).toBe("slider");
});
test("both as one", () => {
  const { host } = opened(pair, { stage: 1 });
  choose(host, "union");
  expect(sides()).toEqual(["both"]);
});
test("where halves would be too narrow both are one picture, until somebody chooses", () => {
  const width = vi.spyOn(HTMLElement.prototype, "clientWidth", "get").mockReturnValue(590);
  const { host } = opened(pair, { stage: 1 });
  expect(sides()).toEqual(["both"]);
  choose(host, "side by side");
  expect(sides()).toEqual(["before", "after"]);
  width.mockRestore();
});
test("within a pass it says how far", () => {
  const { store, host } = opened(pair, { stage: 1 });
  store.go({ firing: 1 });
  expect(texts(host, ".ll-caption")[1]).toBe("after 1 firing of 2: all of it");
});
test("what nobody has chosen goes by the room there is, also when that changes", () => {
  let resized = (): void => undefined;
  vi.stubGlobal("ResizeObserver", class { constructor(act: () => void) { resized = act; } observe() { return undefined; } disconnect() { return undefined; } });
  const width = vi.spyOn(HTMLElement.prototype, "clientWidth", "get").mockReturnValue(500);
  const { host } = opened(pair, { stage: 1 });
  expect([sides(), ways(host).value]).toEqual([["both"], "union"]);
  width.mockReturnValue(700);
  resized();
  expect([sides(), ways(host).value]).toEqual([["before", "after"], "side by side"]);
  choose(host, "after only");
  width.mockReturnValue(500);
  resized();
  expect(sides()).toEqual(["after"]);
  width.mockRestore();
  vi.unstubAllGlobals();
});
