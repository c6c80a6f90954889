// A search: candidates by time in the order of measuring, and all that there is of the one that is chosen.

import { asked } from "../parts/asking";
import { columns, unpacked, type Arrays, type Columns } from "../data/columns";
import { div, fill, h, s, set, span } from "../parts/dom";
import { code, textsDiffer } from "./kernels";
import { listen } from "../parts/keys";
import type { Live } from "../data/live";
import { Rows } from "../parts/rows";
import { scaleOf, text, type Scale } from "./searchscale";
import type { Pane } from "../data/store";
import { css } from "../parts/styles";
import { tabList } from "../parts/tabs";
import { count, seconds } from "../data/units";

interface Kernel {
  readonly name: string;
  readonly launches: number;
  readonly limit: number | null;
  readonly bound: string;
  /** The number of the fastest candidate that keeps kernels apart, where some do not. */
  readonly unfused: number | null;
}

interface Header {
  readonly schema: number;
  readonly columns: Readonly<Record<string, readonly [keyof Arrays, number, number]>>;
  readonly strings: readonly string[];
  readonly title: string;
  readonly headline: readonly string[];
  readonly states: readonly string[];
  /** What stands before times that are a model's. */
  readonly mark: string;
  readonly kernels: readonly Kernel[];
}

/** A candidate; numbers that it has not are NaN, texts empty. */
export interface Candidate {
  readonly at: number;
  readonly kernel: number;
  readonly number: number;
  readonly state: string;
  readonly seconds: number;
  readonly ratio: number;
  readonly why: string;
  readonly step: string;
  readonly origin: string;
  /** The edit that made it, or the numbers that it was drawn with, as far as the default has others. */
  readonly what: string;
  readonly choices: string;
  readonly definition: string;
  readonly schedule: string;
  readonly nest: string;
  readonly source: string;
}

export interface SearchPane extends Pane {
  /** Draw what there is by now; who is chosen stays. */
  renew(bytes: ArrayBuffer | Uint8Array): void;
}

css`
.ll-sv { flex: 1; min-height: 0; overflow: auto; padding: 6px 8px; container-type: inline-size; }
.ll-sv-said { margin: 0 0 4px; } .ll-sv-said > p { margin: 0; } .ll-sv-said > p:first-child { font-weight: 600; }
.ll-sv-parts { display: grid; grid-template-columns: minmax(0, 1fr); gap: 8px; }
.ll-sv svg { display: block; width: 100%; height: 250px; cursor: pointer; }
.ll-sv text { fill: var(--ll-faint); font-size: 10.5px; } .ll-sv text.ll-sv-name { fill: var(--ll-text); }
.ll-sv .ll-sv-grid { stroke: var(--ll-line); }
.ll-sv .ll-sv-slower { fill: none; stroke: var(--ll-input-line); stroke-width: 5.5; stroke-linecap: round; }
.ll-sv .ll-sv-stopped { fill: none; stroke: var(--ll-edge); stroke-width: 1.5; }
.ll-sv .ll-sv-refused { fill: none; stroke: var(--ll-launch-line); stroke-width: 1.8; }
.ll-sv .ll-sv-failed { fill: none; stroke: var(--ll-reduce-line); stroke-width: 1.8; }
.ll-sv .ll-sv-default { fill: none; stroke: var(--ll-text); stroke-width: 1.8; }
.ll-sv .ll-sv-fastest { fill: var(--ll-source-line); stroke: none; }
.ll-sv .ll-sv-best { fill: none; stroke: var(--ll-source-line); }
.ll-sv .ll-sv-usual { fill: none; stroke: var(--ll-edge); stroke-dasharray: 5 3; }
.ll-sv .ll-sv-apart { fill: none; stroke: var(--ll-kernel-line); stroke-dasharray: 7 3 2 3; }
.ll-sv .ll-sv-limit { fill: none; stroke: var(--ll-reduce-line); stroke-dasharray: 1.5 3; }
.ll-sv .ll-sv-ring { fill: none; stroke: var(--ll-high); stroke-width: 2; }
.ll-sv-key { display: flex; flex-wrap: wrap; gap: 2px 12px; font-size: 11px; color: var(--ll-faint); }
.ll-sv-key svg { width: 16px; height: 12px; display: inline-block; vertical-align: -2px; margin-right: 4px; cursor: default; }
.ll-sv-list { height: clamp(190px, 34vh, 420px); border: 1px solid var(--ll-line); }
.ll-sv-list .ll-row { gap: 10px; } .ll-sv-list .ll-row > span { flex: none; overflow: hidden; text-overflow: ellipsis; }
.ll-sv-number { width: 5ch; text-align: right; } .ll-sv-time { width: 8ch; text-align: right; } .ll-sv-state { width: 8ch; }
.ll-sv-detail h2 { font-size: 13px; margin: 0 0 4px; } .ll-sv-detail p { margin: 0 0 4px; overflow-wrap: anywhere; }
.ll-root .ll-sv-detail pre.ll-code { max-height: 420px; margin: 6px 0 0; }
@container (min-width: 860px) { .ll-sv-parts { grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); } }
`;

const LEFT = 58, NAMES = 96, TOP = 18, DEEP = 180, STRIP = 20, BELOW = 30;
/** What has been chosen, and is said of it, one tab each. */
const TABS = ["Schedule", "Diff", "Definition", "Nest", "Source"] as const;
type Tab = (typeof TABS)[number];

/** Draw a search into a host. */
export function search(bytes: ArrayBuffer | Uint8Array, host: HTMLElement, live: Live, chosen?: Chosen): SearchPane {
  let view: ReturnType<typeof drawn> | null = null, isGone = false, turn = 0;
  const renew = (bytes: ArrayBuffer | Uint8Array): void => {
    const own = ++turn;
    unpacked(bytes)
      .then((data) => {
        if (isGone || own !== turn) return;
        const read = candidatesOf(columns<Header>(data));
        if (view) view.renew(read);
        else view = drawn(read, host, live, chosen);
      })
      .catch((error: Error) => fill(host, h("p", { class: "ll-sorry", role: "alert" }, error.message)));
  };
  renew(bytes);
  return {
    renew,
    dispose: () => {
      isGone = true;
      view?.dispose();
    },
  };
}

/** Who else knows which candidate is chosen. */
export interface Chosen {
  current(): number | null;
  tell(at: number): void;
}

interface Read {
  readonly header: Header;
  readonly candidates: readonly Candidate[];
}

/** The rows of a bundle. */
export function candidatesOf(data: Columns<Header>): Read {
  const { header } = data, { strings, states } = header;
  const numbers = (name: string): ArrayLike<number> => data.column(name);
  const texts = (name: string): ((at: number) => string) => {
    const own = data.typed(name, "u32");
    return (at) => strings[own[at]!] ?? "";
  };
  const [kernel, number, state, time, ratio] = ["kernel", "number", "state", "seconds", "ratio"].map(numbers) as [N, N, N, N, N];
  const [why, step, origin, what, choices, definition, schedule, nest, source] = ["why", "step", "origin", "what", "choices", "definition", "schedule", "nest", "source"].map(texts) as [T, T, T, T, T, T, T, T, T];
  const candidates = Array.from({ length: kernel.length }, (_, at) => ({
    at,
    kernel: kernel[at]!,
    number: number[at]!,
    state: states[state[at]!] ?? "?",
    seconds: time[at]!,
    ratio: ratio[at]!,
    why: why(at),
    step: step(at),
    origin: origin(at),
    what: what(at),
    choices: choices(at),
    definition: definition(at),
    schedule: schedule(at),
    nest: nest(at),
    source: source(at),
  }));
  return { header, candidates };
}

type N = ArrayLike<number>;
type T = (at: number) => string;

function drawn(first: Read, host: HTMLElement, live: Live, known?: Chosen): { renew(read: Read): void; dispose(): void } {
  let { header, candidates } = first;
  let own: number | null = known?.current() ?? null, tab: Tab = "Schedule", isByTime = true;
  let order: number[] = [], widest = 0, scale: Scale = scaleOf(header.kernels, candidates);
  const made = new Map<string, { nest: string; source: string }>();
  const said = div("ll-sv-said"), key = div("ll-sv-key"), detail = div("ll-sv-detail"), note = div("");
  const picture = s("svg", { role: "img", tabindex: 0, "aria-label": "" });
  const status = div("ll-faint");
  status.setAttribute("role", "status");
  const best = (kernel: number): Candidate => candidates.find((one) => one.kernel === kernel && one.state === "fastest") ?? candidates.find((one) => one.kernel === kernel && !one.number)!;
  const chosen = (): Candidate => candidates[own ?? -1] ?? best(0);
  const took = (value: number): string => header.mark + seconds(value);
  const name = (one: Candidate): string => `${header.kernels.length > 1 ? `${header.kernels[one.kernel]!.name} ` : ""}${one.number}`;
  const told = (one: Candidate): string =>
    one.why ? `${one.state}: ${one.why}` : [one.state, Number.isNaN(one.seconds) ? "" : took(one.seconds), Number.isNaN(one.ratio) ? "" : `${one.ratio.toFixed(3)} of the default's time`].filter(Boolean).join(", ");

  const list = new Rows({
    label: "candidates",
    class: "ll-mono ll-sv-list",
    follow: true,
    draw: (at) => {
      const one = candidates[order[at]!]!;
      return [
        header.kernels.length > 1 && h("span", { style: `width:${widest}ch` }, header.kernels[one.kernel]!.name),
        span("ll-sv-number", one.number),
        span("ll-sv-time", Number.isNaN(one.seconds) ? "" : took(one.seconds)),
        span("ll-sv-time", Number.isNaN(one.ratio) ? "" : one.ratio.toFixed(3)),
        span("ll-sv-state", one.state),
        span("ll-faint", one.why || one.what),
      ];
    },
    look: (at) => (order[at] === chosen().at ? "ll-lit" : ""),
    act: (at) => choose(order[at]!),
  });
  const sorted = h("select", { class: "ll-select", "aria-label": "order", onchange: () => ((isByTime = sorted.value === "time"), arrange()) }, h("option", { value: "time" }, "the fastest first"), h("option", { value: "order" }, "in the order of measuring"));
  const tabs = tabList("of the candidate", TABS, (name) => ((tab = name as Tab), show()));
  const bar = div("ll-bar", sorted, status);
  fill(host, div("ll-sv", said, div("ll-sv-parts", div("", picture, key, bar, list.element), detail)));

  /** The defaults are those that the others are held against. */
  const counted = (): string => count(candidates.filter((one) => one.number).length, "candidate");
  function choose(at: number): void {
    if (!candidates[at]) return;
    own = at;
    known?.tell(at);
    list.refresh();
    ring();
    show();
  }

  /** All that there is of the chosen one. */
  function show(): void {
    const one = chosen();
    tabs.mark(tab);
    fill(
      detail,
      h("h2", null, `candidate ${name(one)}: ${told(one)}`),
      one.step && h("p", null, "from ", h("code", null, one.step), " on its values are wrong"),
      h("p", { class: "ll-faint" }, one.what),
      one.choices && !one.what.includes(one.choices) && h("p", { class: "ll-faint" }, `all numbers: ${one.choices}`),
      tabs.element,
      note,
      content(one),
    );
  }

  function content(one: Candidate): Node {
    const steps = (of: Candidate): string => of.schedule || "# no steps: plain loops";
    fill(note);
    if (tab === "Schedule") return code(steps(one), "form");
    if (tab === "Definition") return code(one.definition, "form");
    if (tab === "Diff") {
      const other = best(one.kernel).at === one.at ? candidates.find((of) => of.kernel === one.kernel && !of.number)! : best(one.kernel);
      const words = other.at === one.at ? "this is the default, and the best so far" : `from ${other.number ? `the best, candidate ${other.number},` : "the default"} to this one`;
      return div("", h("p", { class: "ll-faint" }, words), textsDiffer(steps(other), steps(one)));
    }
    const parts = one.source ? one : made.get(one.kernel + one.schedule);
    if (parts) return tab === "Nest" ? code(parts.nest, "form") : code(parts.source, "c");
    void ask(one);
    return div("");
  }

  async function ask(one: Candidate): Promise<void> {
    const place = `${one.at} ${tab}`;
    const reply = await asked(live, note, "kernel", { candidate: one.at });
    if (!reply) return;
    made.set(one.kernel + one.schedule, { nest: String(reply["nest"]), source: String(reply["source"]) });
    if (place === `${chosen().at} ${tab}`) show();
  }

  function arrange(): void {
    order = candidates.map((one) => one.at);
    const rank = (at: number): number => (Number.isNaN(candidates[at]!.ratio) ? Infinity : candidates[at]!.ratio);
    if (isByTime) order.sort((a, b) => rank(a) - rank(b) || a - b);
    list.show(candidates.length);
    list.reveal(order.indexOf(chosen().at));
    status.textContent = counted();
  }

  const ringed = s("circle", { class: "ll-sv-ring", r: 8 });
  let width = 0, points: (readonly [number, number])[] = [];
  /** Mark the chosen one. */
  function ring(): void {
    const point = points[chosen().at];
    if (point) set(ringed, { cx: point[0], cy: point[1] });
  }

  /** Draw the chart as wide as there is room. */
  function paint(): void {
    width = Math.max(260, picture.clientWidth || 560);
    const right = width - (header.kernels.length > 1 ? 8 : NAMES);
    const hasErrors = candidates.some((one) => one.why), bottom = TOP + DEEP + (hasErrors ? STRIP : 0);
    const x = (at: number): number => LEFT + ((at + 0.5) / candidates.length) * (right - LEFT);
    const y = (value: number): number => TOP + DEEP * (1 - scale.share(value));
    points = candidates.map((one) => [x(one.at), Number.isNaN(scale.value(one)) ? TOP + DEEP + STRIP / 2 + 2 : y(scale.value(one))] as const);
    const parts: SVGElement[] = [], names: [number, string][] = [];
    const line = (kind: string, from: number, to: number, at: number): void => void parts.push(s("path", { class: kind, d: `M${from} ${at}H${to}` }));
    for (const value of scale.ticks) {
      line("ll-sv-grid", LEFT, right, y(value));
      parts.push(s("text", { x: LEFT - 6, y: y(value) + 3.5, "text-anchor": "end" }, text(value, scale.isShare)));
    }
    if (hasErrors) parts.push(s("text", { x: LEFT - 6, y: TOP + DEEP + STRIP / 2 + 6, "text-anchor": "end" }, "no time"));
    const words = scale.isShare ? "share of the default's time" : "time";
    parts.push(s("text", { x: 2, y: 9 }, `${words}, by candidate in the order of measuring`));
    for (const at of everyOf(candidates.length)) parts.push(s("text", { x: x(at), y: bottom + 14, "text-anchor": "middle" }, at));
    header.kernels.forEach((kernel, number) => {
      const band = candidates.filter((one) => one.kernel === number), from = x(band[0]!.at - 0.5), to = x(band.at(-1)!.at + 0.5);
      if (header.kernels.length > 1) {
        if (number) parts.push(s("path", { class: "ll-sv-grid", d: `M${from} ${TOP}V${bottom}` }));
        if (to - from > 7 * kernel.name.length) parts.push(s("text", { x: from + 4, y: bottom + 27, class: "ll-sv-name" }, kernel.name));
      }
      let least = Infinity, path = "";
      for (const one of band) {
        const value = scale.value(one);
        if (one.state === "stopped" || !(value < least)) continue;
        path += path ? `H${points[one.at]![0]}V${y(value)}` : `M${points[one.at]![0]} ${y(value)}`;
        least = value;
      }
      if (path) parts.push(s("path", { class: "ll-sv-best", d: `${path}H${to}` }));
      const usual = scale.value(band[0]!), limit = scale.limit(number);
      if (!Number.isNaN(usual)) line("ll-sv-usual", from, to, y(usual)), names.push([y(usual), `default ${took(band[0]!.seconds)}`]);
      const apart = band.find((one) => one.number === kernel.unfused);
      if (apart && !Number.isNaN(scale.value(apart))) line("ll-sv-apart", from, to, y(scale.value(apart))), names.push([y(scale.value(apart)), `apart ${took(apart.seconds)}`]);
      if (limit >= scale.low) line("ll-sv-limit", from, to, y(limit));
      if (!Number.isNaN(limit)) names.push([y(limit), `limit ${seconds(kernel.limit!)}${limit < scale.low ? " ↓" : ""}`]);
      const fastest = best(number);
      if (fastest.number && !Number.isNaN(fastest.seconds)) names.push([y(scale.value(fastest)), `best ${took(fastest.seconds)}`]);
    });
    for (const state of [...header.states].reverse()) {
      const data = candidates.filter((one) => one.state === state && (one.why || !Number.isNaN(scale.value(one)))).map((one) => sign(state, ...points[one.at]!));
      if (data.length) parts.push(s("path", { class: `ll-sv-${state}`, d: data.join("") }));
    }
    let free = 0;
    for (const [at, words] of header.kernels.length > 1 ? [] : names.sort((a, b) => a[0] - b[0])) {
      free = Math.max(at + 3.5, free + 13);
      parts.push(s("text", { x: right + 6, y: free, class: "ll-sv-name" }, words));
    }
    set(picture, { viewBox: `0 0 ${width} ${bottom + BELOW}`, style: `height:${bottom + BELOW}px`, "aria-label": `${counted()} of ${header.title} by time; arrow keys go from one to the next` });
    fill(picture, parts, ringed);
    ring();
  }

  function legend(): void {
    const states = header.states.filter((state) => candidates.some((one) => one.state === state));
    const entry = (kind: string, d: string, words: string): HTMLElement => span("", s("svg", { viewBox: "0 0 16 12", "aria-hidden": "true" }, s("path", { class: kind, d })), words);
    fill(
      key,
      states.map((state) => entry(`ll-sv-${state}`, sign(state, 8, 6), `${state} ${candidates.filter((one) => one.state === state).length}`)),
      entry("ll-sv-best", "M0 6h16", "best so far"),
      entry("ll-sv-usual", "M0 6h16", "default"),
      header.kernels.some((kernel) => kernel.unfused !== null) && entry("ll-sv-apart", "M0 6h16", "the fastest with kernels apart"),
      header.kernels.some((kernel) => kernel.limit) && entry("ll-sv-limit", "M0 6h16", `the machine's limit (${[...new Set(header.kernels.map((kernel) => kernel.bound).filter(Boolean))].join(", ")})`),
    );
  }

  function draw(): void {
    scale = scaleOf(header.kernels, candidates);
    widest = Math.min(24, Math.max(...header.kernels.map((kernel) => kernel.name.length)));
    fill(said, h("p", null, `search of ${header.title}`), header.headline.map((sentence) => h("p", null, sentence)));
    legend();
    paint();
    arrange();
    show();
  }

  const nearest = (event: MouseEvent): number => {
    const box = picture.getBoundingClientRect(), shrunk = width / (box.width || width);
    const [px, py] = [(event.clientX - box.left) * shrunk, (event.clientY - box.top) * shrunk];
    let found = -1, least = 20 ** 2;
    points.forEach(([x, y], at) => {
      const away = (x - px) ** 2 + (y - py) ** 2;
      if (away < least) (least = away), (found = at);
    });
    return found;
  };
  picture.addEventListener("click", (event) => choose(nearest(event)));
  picture.addEventListener("pointermove", (event) => {
    const one = candidates[nearest(event)];
    status.textContent = one ? `${name(one)}: ${told(one)}` : counted();
  });
  const by = (count: number) => (): void => choose(Math.max(0, Math.min(candidates.length - 1, chosen().at + count)));
  listen(picture, { previousCandidate: by(-1), nextCandidate: by(1), firstCandidate: by(-Infinity), lastCandidate: by(Infinity) });
  const watch = typeof ResizeObserver === "function" ? new ResizeObserver(() => picture.clientWidth !== width && paint()) : null;
  watch?.observe(host);
  draw();
  return {
    renew: (read) => {
      ({ header, candidates } = read);
      own = known?.current() ?? own;
      draw();
    },
    dispose: () => {
      watch?.disconnect();
      list.dispose();
    },
  };
}

/** The sign of a state as the data of a path. */
export function sign(state: string, x: number, y: number): string {
  switch (state) {
    case "fastest":
      return `M${x} ${y - 6}l6 6l-6 6l-6 -6z`;
    case "default":
      return `M${x - 4} ${y - 4}h8v8h-8z`;
    case "stopped":
      return `M${x - 2.5} ${y}a2.5 2.5 0 1 0 5 0a2.5 2.5 0 1 0 -5 0`;
    case "failed":
      return `M${x - 3} ${y - 3}l6 6m0 -6l-6 6`;
    case "refused":
      return `M${x} ${y - 4}v8`;
    default:
      return `M${x} ${y}h0`;
  }
}

/** Some round numbers below a count. */
function everyOf(total: number): number[] {
  const step = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000].find((one) => total / one <= 6) ?? total;
  return Array.from({ length: Math.ceil(total / step) }, (_, at) => at * step);
}
