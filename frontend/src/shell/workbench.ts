// The workbench: the user's lines, the graph before and after, a kernel and its times, in sight together.
//
// Where there is room for all of them each has a place; where there is less, tabs share one beside the
// graphs, and where there is little, below them.

import { advice } from "../panes/advice";
import { beside } from "../panes/beside";
import { board } from "../panes/board";
import { cells } from "../panes/cells";
import { chosen, choose } from "../parts/choices";
import { button, div, fill, h } from "../parts/dom";
import { firings } from "../panes/firings";
import { Stepper } from "../panes/stepper";
import { kernels } from "../panes/kernels";
import { listen } from "../parts/keys";
import type { Live } from "../data/live";
import { memory } from "../panes/memory";
import { pair, type Pair } from "../graph/pair";
import { remarks } from "../panes/remarks";
import { rerun } from "../panes/rerun";
import { machinePane } from "../panes/running";
import { linkButton } from "./links";
import { openButton } from "./dropping";
import { hands } from "./hands";
import { helpButton, sizeButtons } from "./help";
import { side } from "../panes/side";
import { source } from "../panes/source";
import { split } from "../parts/split";
import type { HitKind } from "../data/finding";
import type { Pane, Store } from "../data/store";
import { css, typeScale } from "../parts/styles";
import { tabs, type Tabs } from "../parts/tabs";
import { textDiff } from "../panes/textdiff";
import { timeline } from "../panes/timeline";
import { times } from "../panes/times";
import { cutOverlay } from "../graph/overlays";
import { placeWords, wordsOf } from "../data/words";
import { workers } from "../panes/workers";

css`
.ll-bench { display: flex; flex-direction: column; flex: 1 1 0; min-height: 0; }
.ll-bench > .ll-bar { flex-wrap: nowrap; }
.ll-bench > .ll-bar > span { flex: 0 1 168px; min-width: 76px; } .ll-bench > .ll-bar .ll-find { width: 100%; }
.ll-panel > .ll-side { flex: 1 1 0; border: 0; }
.ll-place { margin-left: 10px; }
.ll-strip { flex: none; min-width: 0; }
.ll-one { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.ll-root.ll-tall { height: min(860px, 94vh); } .ll-root.ll-tower { height: clamp(860px, 160vw, 980px); }
.ll-heading { flex: none; display: flex; align-items: center; padding: 1px 2px 1px 10px; border-bottom: 1px solid var(--ll-line); background: var(--ll-panel); }
.ll-heading > h2 { flex: 1 1 0; margin: 0; font-size: 11.5px; font-weight: 600; } .ll-heading > .ll-button { border: 0; background: none; min-height: 20px; padding: 0 8px; }
`;

/** From so many pixels on everything has a place; below the second number details are below the graphs. */
const WIDE = 1200, BESIDE = 760;
type Layout = "wide" | "beside" | "below";

/** How there is room for panes; beside each other where nobody knows yet. Large type takes more, and height before all. */
export function layoutFor(width: number, type = 1): Layout {
  return width >= WIDE * type ? "wide" : width >= BESIDE || !width ? "beside" : "below";
}

/** `isBeside`: two runs beside each other stand where the graphs before and after a pass would. */
export function workbench(store: Store, host: HTMLElement, live: Live, isBeside = false): Pane {
  const stepper = new Stepper(store);
  const title = h("strong"), words = div("ll-grow ll-one ll-place");
  const clear = button("×", "select nothing (Esc)", () => store.select(null));
  const note = div("");
  const field = h("span"), said = div("ll-strip"), passes = div("ll-strip");
  const area = div("ll-area"), runs = h("div");
  const bench = div("ll-bench", div("ll-bar", title, words, clear, field, !isBeside && openButton(live), linkButton(store, () => !!host.closest(".ll-page"), note), sizeButtons(), helpButton()), note, said, passes, live.machine ? div("ll-withmachine", runs, area) : area);
  host.append(bench);
  const make: Readonly<Record<string, (at: HTMLElement) => Pane>> = {
    firings: (at) => firings(store, at, live, stepper),
    about: (at) => side(store, at.appendChild(h("div")), live),
    diff: (at) => textDiff(store, at),
    source: (at) => source(store, at, live),
    kernels: (at) => kernels(store, at),
    times: (at) => times(store, at),
    advice: (at) => advice(store, at, live),
    memory: (at) => memory(store, at),
    Python: (at) => cells(store, at),
    "and if?": (at) => board(store, at, live),
    "re-run": (at) => rerun(store, at, live),
    workers: (at) => workers(store, at, live),
    beside: (at) => beside(store, at),
  };
  const graphsIn = isBeside ? beside : pair;
  /** Whether there are runs to be beside each other in a tab. */
  const hasTwo = (): boolean => !isBeside && store.bundle.runs.length > 1;
  let panes: Pane[] = [];
  let detail: Tabs | null = null, keys = (): void => undefined;
  let laid = "", hadTwo = false;
  if (!store.overlay) store.setOverlay(cutOverlay(store));
  /** A pane under its title. */
  const titled = (at: HTMLElement, name: string, fold: () => void): void => {
    const inside = div("ll-area");
    at.append(div("ll-heading", h("h2", { class: "ll-one" }, name), button("−", `Fold ${name}; Enter at its border opens it again`, fold)), inside);
    panes.push(make[name]!(inside));
  };
  const details = (at: HTMLElement, ...shown: string[]): void => {
    const list = Object.fromEntries(Object.entries(make).filter(([name]) => !shown.includes(name) && (name !== "beside" || hadTwo) && (name !== "workers" || store.run.facts.workers)));
    panes.push((detail = tabs(at, "details", list, chosen("tab", "firings"), (name) => choose("tab", name))));
  };
  /** Where a hit of a search is shown, if it is in a tab. */
  const shownIn: Readonly<Partial<Record<HitKind, string>>> = { pass: "firings", rule: "firings", kernel: "source", line: "Python" };
  const graphs = (at: HTMLElement): void => {
    const tools = hands(store, at, live, {
      draw: (host) => graphsIn(store, host),
      before: (made) => (isBeside ? [] : (made as Pair).modes),
      field,
      side: () => detail?.open("about"),
      went: (kind) => detail?.open(shownIn[kind] ?? ""),
    });
    panes.push(tools);
    keys();
    keys = listen(host, { ...tools.handlers, previousFiring: () => stepper.step(-1), nextFiring: () => stepper.step(1), previousTouch: () => stepper.touch(-1), nextTouch: () => stepper.touch(1), play: () => stepper.play() });
  };
  /** What there is to see decides what has a place: no pane is empty. */
  const plan = (): string => {
    const { facts, origins } = store.run;
    const layout = layoutFor(host.clientWidth, typeScale(host));
    const spread = facts.workers && "workers";
    const parts = layout === "wide" ? [origins.length + facts.cells.length && "Python", facts.kernels.length && "source", facts.times.length && facts.kernels.length && "times"] : [];
    return [layout, ...[spread, ...parts].filter(Boolean)].join(" ");
  };
  const lay = (): void => {
    const planned = plan();
    if (planned === laid && hadTwo === hasTwo()) return;
    hadTwo = hasTwo();
    const [layout, ...shown] = (laid = planned).split(" ");
    const hadFocus = area.contains(document.activeElement);
    for (const pane of panes) pane.dispose();
    panes = [];
    fill(area);
    const root = host.closest(".ll-root");
    root?.classList.toggle("ll-tall", layout === "wide" && shown.includes("source"));
    root?.classList.toggle("ll-tower", layout === "below");
    if (layout !== "wide") {
      const [pictures, rest] = split(area, layout === "below" ? "down" : "across", "pictures and details", layout === "below" ? 56 : 60);
      graphs(pictures);
      details(rest);
    } else {
      const hasSource = shown.includes("source"), hasTimes = shown.includes("times");
      const isSpread = shown.includes("workers") && !hasSource;
      const [top, below, foldWorkers] = hasSource || isSpread ? split(area, "down", isSpread ? "graphs and workers" : "graphs and times", isSpread ? 64 : 60) : [area, null];
      const [left, rest, foldPython] = shown.includes("Python") ? split(top, "across", "Python and graphs", 20, 0) : [null, top];
      const [pictures, right, foldSource] = split(rest, "across", "graphs and kernel", 62);
      if (left) titled(left, "Python", foldPython!);
      graphs(pictures);
      if (!below || isSpread) {
        details(right, ...shown);
        if (below) titled(below, "workers", foldWorkers!);
      } else {
        titled(right, "source", foldSource);
        const [under, beside, foldTimes] = hasTimes ? split(below, "across", "times and details", 58, 0) : [null, below];
        if (under) titled(under, "times", foldTimes!);
        details(beside, ...shown);
      }
    }
    if (hadFocus) (area.querySelector<HTMLElement>(".ll-graph") ?? host).focus({ preventScroll: true });
  };
  const strip = timeline(store, passes), about = remarks(store, said);
  lay();
  const machine = live.machine && machinePane(store, runs, live.machine);
  let frame = 0;
  const watcher = typeof ResizeObserver === "undefined" ? null : new ResizeObserver(() => {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(lay);
  });
  watcher?.observe(host);
  const mark = (): void => {
    const { selected } = store;
    // A firing that is selected is the one that was done last.
    const more = selected && selected.kind !== "firing" ? wordsOf(store, selected) : "";
    // Of several runs the one at hand, unless they are all in sight.
    fill(title, (!isBeside && store.bundle.runs.length > 1 && store.run.title) || store.bundle.title || store.run.title);
    fill(words, h("b", null, placeWords(store)), !selected ? [" · ", h("span", { class: "ll-faint" }, "select anything: its relatives light up everywhere")] : more && [" · ", h("span", { class: "ll-mono" }, more)]);
    words.title = words.textContent;
    clear.hidden = !selected;
  };
  const stops = [
    store.on("selection", mark),
    store.on("place", () => (mark(), lay())),
    store.on("bundle", () => (mark(), lay())),
  ];
  mark();
  return {
    dispose: () => {
      for (const stop of stops) stop();
      keys();
      watcher?.disconnect();
      cancelAnimationFrame(frame);
      for (const pane of [about, strip, machine, ...panes]) pane?.dispose();
      bench.remove();
    },
  };
}
