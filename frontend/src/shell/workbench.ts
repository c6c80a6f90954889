// The workbench: the user's lines, the graph before and after, a kernel and its times, in sight together.
//
// Where there is room for all of them each has a place; where there is less, tabs share one beside the
// graphs, and where there is little, below them.

import { beside } from "../panes/beside";
import { board } from "../panes/board";
import { cells } from "../panes/cells";
import { chosen, choose } from "../parts/choices";
import { button, div, fill, h } from "../parts/dom";
import { firings, Stepper } from "../panes/firings";
import { kernels } from "../panes/kernels";
import { listen } from "../parts/keys";
import type { Live } from "../data/live";
import { memory } from "../panes/memory";
import { pair } from "../graph/pair";
import { rerun } from "../panes/rerun";
import { linkButton } from "./links";
import { helpButton, tellButton } from "./help";
import { side } from "../panes/side";
import { source } from "../panes/source";
import { split } from "../parts/split";
import type { Pane, Store } from "../data/store";
import { css } from "../parts/styles";
import { tabs } from "../parts/tabs";
import { textDiff } from "../panes/textdiff";
import { nextStage, timeline, told } from "../panes/timeline";
import { times } from "../panes/times";
import { wordsOf } from "../data/words";

css`
.ll-bench { display: flex; flex-direction: column; flex: 1 1 0; min-height: 0; }
.ll-bench > .ll-bar { flex-wrap: nowrap; }
.ll-panel > .ll-side { flex: 1 1 0; border: 0; }
.ll-strip { flex: none; min-width: 0; }
.ll-one { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.ll-root.ll-tall { height: min(860px, 94vh); } .ll-root.ll-tower { height: min(980px, 160vw); }
.ll-root .ll-title { flex: none; margin: 0; padding: 3px 10px; border-bottom: 1px solid var(--ll-line); background: var(--ll-panel); font-size: 11.5px; font-weight: 600; }
`;

/** From so many pixels on everything has a place; below the second number details are below the graphs. */
const WIDE = 1200, BESIDE = 760;
type Layout = "wide" | "beside" | "below";

/** Stores that a workbench has shown: it does not go elsewhere when it is drawn anew. */
const begun = new WeakSet<Store>();

/** How there is room for panes; beside each other where nobody knows yet. */
export function layoutFor(width: number): Layout {
  return width >= WIDE ? "wide" : width >= BESIDE || !width ? "beside" : "below";
}

/** `isBeside`: two runs beside each other stand where the graphs before and after a pass would. */
export function workbench(store: Store, host: HTMLElement, live: Live, isBeside = false): Pane {
  if (!store.isPlaced && !begun.has(store)) store.go({ stage: store.run.first });
  begun.add(store);
  const stepper = new Stepper(store);
  const words = div("ll-grow ll-one");
  const clear = button("×", "select nothing (Esc)", () => store.select(null));
  const note = div("");
  const passes = div("ll-strip");
  const area = div("ll-area");
  const fillIt = tellButton("⤢", "Fill the window, or not (w)", "ll-fill"), enlarge = tellButton("A", "Large type for a projector, or not (P)", "ll-projector");
  const bench = div("ll-bench", div("ll-bar", h("strong", null, store.bundle.title || store.run.title), words, clear, linkButton(store, () => !!host.closest(".ll-page"), note), enlarge, fillIt, helpButton()), note, passes, area);
  host.append(bench);
  const make: Readonly<Record<string, (at: HTMLElement) => Pane>> = {
    firings: (at) => firings(store, at, live, stepper),
    about: (at) => side(store, at.appendChild(h("div")), live),
    diff: (at) => textDiff(store, at),
    source: (at) => source(store, at, live),
    kernels: (at) => kernels(store, at),
    times: (at) => times(store, at),
    memory: (at) => memory(store, at),
    Python: (at) => cells(store, at),
    "and if?": (at) => board(store, at, live),
    "re-run": (at) => rerun(store, at, live),
    beside: (at) => beside(store, at),
  };
  const graphsIn = isBeside ? beside : pair;
  /** Whether there are runs to be beside each other in a tab. */
  const hasTwo = (): boolean => !isBeside && store.bundle.runs.length > 1;
  let panes: Pane[] = [];
  let laid = "", hadTwo = false;
  /** A pane under its title. */
  const titled = (at: HTMLElement, name: string): void => {
    const inside = div("ll-area");
    at.append(h("h2", { class: "ll-title ll-one" }, name), inside);
    panes.push(make[name]!(inside));
  };
  const details = (at: HTMLElement, ...shown: string[]): void => {
    const list = Object.fromEntries(Object.entries(make).filter(([name]) => !shown.includes(name) && (name !== "beside" || hadTwo)));
    panes.push(tabs(at, "details", list, chosen("tab", "firings"), (name) => choose("tab", name)));
  };
  /** What there is to see decides what has a place: no pane is empty. */
  const plan = (): string => {
    const { facts, origins } = store.run;
    const layout = layoutFor(host.clientWidth);
    const parts = layout === "wide" ? [origins.length + facts.cells.length && "Python", facts.kernels.length && "source", facts.times.length && "times"] : [];
    return [layout, ...parts.filter(Boolean)].join(" ");
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
      const [graphs, rest] = split(area, layout === "below" ? "down" : "across", "pictures and details", layout === "below" ? 50 : 60);
      panes.push(graphsIn(store, graphs));
      details(rest);
    } else {
      const hasSource = shown.includes("source"), hasTimes = shown.includes("times");
      const [top, below] = hasSource ? split(area, "down", "graphs and times", 60) : [area, null];
      const [left, rest] = shown.includes("Python") ? split(top, "across", "Python and graphs", 20) : [null, top];
      const [graphs, right] = split(rest, "across", "graphs and kernel", 62);
      if (left) titled(left, "Python");
      panes.push(graphsIn(store, graphs));
      if (!below) details(right, ...shown);
      else {
        titled(right, "source");
        const [under, beside] = hasTimes ? split(below, "across", "times and details", 58) : [null, below];
        if (under) titled(under, "times");
        details(beside, ...shown);
      }
    }
    if (hadFocus) (area.querySelector<HTMLElement>(".ll-graph") ?? host).focus({ preventScroll: true });
  };
  const strip = timeline(store, passes);
  lay();
  let frame = 0;
  const watcher = typeof ResizeObserver === "undefined" ? null : new ResizeObserver(() => {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(lay);
  });
  watcher?.observe(host);
  const mark = (): void => {
    const { selected } = store;
    fill(words, selected ? wordsOf(store, selected) : "select anything: its relatives light up everywhere");
    words.classList.toggle("ll-faint", !selected);
    words.classList.toggle("ll-mono", !!selected);
    words.title = words.textContent;
    clear.hidden = !selected;
  };
  const go = (by: 1 | -1, all = false) => (): boolean => {
    const { stage } = store.place;
    const next = nextStage(store.run, stage, by, all);
    store.go({ stage: next });
    if (next !== stage) store.say(told(store.run.stages[next]!, next));
    return next !== stage;
  };
  const stops = [
    store.on("selection", mark),
    store.on("place", () => (mark(), lay())),
    store.on("bundle", lay),
    listen(host, {
      previousPass: go(-1),
      nextPass: go(1),
      previousAny: go(-1, true),
      nextAny: go(1, true),
      previousFiring: () => stepper.step(-1),
      nextFiring: () => stepper.step(1),
      play: () => stepper.play(),
      escape: () => {
        const had = !!store.selected;
        store.select(null);
        return had;
      },
    }),
  ];
  mark();
  return {
    dispose: () => {
      for (const stop of stops) stop();
      watcher?.disconnect();
      cancelAnimationFrame(frame);
      for (const pane of [strip, ...panes]) pane.dispose();
      bench.remove();
    },
  };
}
