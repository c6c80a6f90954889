// A run about which everything is known, for the panes of the workbench.

import type { Facts } from "../src/data/model";
import { Store, type Pane } from "../src/data/store";
import { withoutKernel, type Live, type Reply } from "../src/data/live";
import { SIMPLE } from "./graphs";
import { made, type Made } from "./made";

// jsdom lays nothing out.
if (typeof Element !== "undefined") Element.prototype.scrollIntoView ??= () => undefined;

const one = SIMPLE.facts!.kernels![0]!;
const time = (launch: number, median: number) => ({ launch, median, low: median * 0.9, high: median * 1.2, bytes: 48, flops: 4, share: 0.5, bound: "memory" as const });

export const FACTS: Partial<Facts> = {
  ...SIMPLE.facts,
  kernels: [
    {
      ...one, definition: "kernel product(a: f32[4])\n  O[i < 4] = a[i] * b[i]\n", nest: "nest product\n  parallel i < 4:\n    O[i] = a[i] * b[i]\n",
      first: "nest product\n  for i < 4:\n    O[i] = a[i] * b[i]\n", steps: [{ text: "parallel i", nest: "nest product\n  parallel i < 4:\n    O[i] = a[i] * b[i]\n" }],
      reason: "elementwise: 1 op",
      sources: [one.sources[0]!, { dialect: "cuda", title: "CUDA", text: "__global__ void product() {}", lines: [[1, [7]]], resources: { registers: 12, shared_bytes: 1024 }, ptx: null }],
    },
    { ...one, name: "other", definition: "kernel other", sources: [] },
  ],
  launches: [...SIMPLE.facts!.launches!, { kernel: 1, name: "%9", node: 9, makes: [9], reads: [], covers: [], origins: [], buffers: [] }],
  buffers: [{ name: "t", offset: 0, bytes: 64, first: 0, last: 1, nodes: [7], kind: "arena" }, ...SIMPLE.facts!.buffers!],
  memory: { before: 128, after: 64 },
  rules: {
    "add-zero": {
      text: "x + 0 → x", source: 'Rule("add-zero", x + 0, x)', file: "simplify.py", line: 7, because: "", needs: ["no_signed_zero"],
      left: { nodes: [{ label: "x", reads: [] }, { label: "0", reads: [] }, { label: "add", reads: [0, 1] }], root: 2 },
      right: { nodes: [{ label: "x", reads: [] }], root: 0 },
    },
  },
  times: [
    { device: "this CPU", how: "measured", note: "quiet", clock: "ticks", dialect: "c", run: { seconds: 1e-5, calls: [[2e-6, 7e-6]], kernels: [[0, 3e-6, 1e-6], [1, 4e-6, 5e-6]], note: "" }, rows: [time(0, 1e-6), time(1, 5e-6)] },
    { device: "T4", how: "recorded", note: "", clock: "", dialect: "cuda", rows: [time(0, 2e-6)] },
    { device: "H200", how: "modelled", note: "", clock: "", dialect: "cuda", rows: [time(0, 1e-6), time(1, 1e-6)] },
  ],
  roofline: [{ device: "this CPU", flops: 2e11, bytes: 2e10, how: "measured" }],
  cells: [{ title: "cell 1", text: "x, y = cx.tensor(4), cx.tensor(4)\nz = x + 0\n" }, { title: "cell 2", text: "z * y\n" }],
  python: 'cx.compile("simplify, nothing, fuse")\n',
};

export const RICH: Made = { ...SIMPLE, facts: FACTS };

/** A pane on the rich run, or on others. */
export function opened(pane: (store: Store, host: HTMLElement) => Pane, place: { stage?: number; firing?: number } = {}, ...runs: Made[]): { store: Store; host: HTMLElement; pane: Pane } {
  document.body.replaceChildren();
  const host = document.createElement("div");
  document.body.append(host);
  const store = new Store(made(...(runs.length ? runs : [RICH])), place);
  return { store, host, pane: pane(store, host) };
}

/** A kernel that answers with what it is given, and remembers what it was asked. */
export function answering(...replies: (Reply | Error)[]): Live & { asked: Reply[] } {
  const asked: Reply[] = [];
  return {
    ...withoutKernel(), hasKernel: true, asked,
    ask: (what, body) => {
      asked.push({ ask: what, ...body });
      const reply = replies.shift() ?? {};
      return reply instanceof Error ? Promise.reject(reply) : Promise.resolve(reply);
    },
  };
}

export const silent = withoutKernel();
export const settled = (): Promise<void> => new Promise((go) => setTimeout(go));
export const texts = (host: Element, selector: string): string[] => [...host.querySelectorAll(selector)].map((one) => one.textContent);
export const press = (on: Element, key: string, more: KeyboardEventInit = {}): KeyboardEvent => {
  const event = new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...more });
  on.dispatchEvent(event);
  return event;
};
/** The button that says so. */
export const named = (host: Element, words: string): HTMLButtonElement => {
  const found = [...host.querySelectorAll("button")].find((one) => one.textContent === words || words === one.getAttribute("aria-label") || words === one.title);
  if (!found) throw new Error(`no button ${words}`);
  return found;
};
