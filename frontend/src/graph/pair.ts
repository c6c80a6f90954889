// Before and after: side by side, each laid out for itself or in fixed places; with a slider; both as one.

import { choose, chosen } from "../parts/choices";
import { div, fill, h } from "../parts/dom";
import { graphView, type GraphView } from "./graph";
import type { Pane, Side, Store } from "../data/store";
import { css, typeScale } from "../parts/styles";
import { count } from "../data/units";

css`
.ll-pair, .ll-half { flex: 1 1 0; min-height: 0; min-width: 0; display: flex; position: relative; }
.ll-half { flex-direction: column; } .ll-half + .ll-half { border-left: 1px solid var(--ll-line); }
.ll-caption { flex: none; padding: 2px 10px; border-bottom: 1px solid var(--ll-line); background: var(--ll-panel); font-size: 11.5px; font-weight: 600; }
.ll-hands .ll-select.ll-modes { max-width: 111px; padding-inline-start: 4px; }
.ll-extent { font-weight: 400; color: var(--ll-faint); }
.ll-over > .ll-half { position: absolute; inset: 0; }
.ll-over > .ll-half + .ll-half { border: 0; clip-path: inset(0 0 0 var(--ll-cut)); background: var(--ll-ground); }
.ll-over > .ll-half + .ll-half > .ll-caption { text-align: right; }
.ll-cut { position: absolute; top: 0; bottom: 0; left: var(--ll-cut); width: 2px; background: var(--ll-high); z-index: 3; pointer-events: none; }
.ll-slide { display: flex; align-items: center; gap: 8px; padding: 2px 8px; border-top: 1px solid var(--ll-line); flex: none; } .ll-slide input { flex: 1 1 0; margin: 0; accent-color: var(--ll-high); }
`;

/** Halves narrower than this are no help: both graphs are one picture then, unless somebody wants it otherwise. */
const NARROW = 300;
const MODES = { beside: "side by side", fixed: "fixed places", over: "slider", both: "union", after: "after only" } as const;
type Mode = keyof typeof MODES;

export interface Pair extends Pane {
  /** Ways to show both, for a bar. */
  readonly modes: HTMLElement;
  views(): GraphView[];
  /** Those that move by themselves. */
  leads(): GraphView[];
  /** Show the graph before as well, if it is not in sight. */
  before(): void;
}

export function pair(store: Store, host: HTMLElement): Pair {
  let mode = chosen("pair", "") as Mode | "";
  if (!Object.hasOwn(MODES, mode)) mode = "";
  let shown: string | null = null;
  let views: { view: GraphView; caption: HTMLElement; side: Side }[] = [];
  let stops: (() => void)[] = [];
  let isBound = false;
  const area = div("ll-pair");
  const slider = h("input", { type: "range", min: 0, max: 100, value: 50, "aria-label": "how much of the graph before is seen", oninput: () => cut() });
  const slide = div("ll-slide", "after", slider, "before");
  const cut = (): void => area.style.setProperty("--ll-cut", `${slider.value}%`);
  const names = Object.keys(MODES) as Mode[];
  const modes = h(
    "select",
    { class: "ll-select ll-modes", "aria-label": "how before and after are shown", title: "how before and after are shown", onchange: () => (choose("pair", (mode = names[modes.selectedIndex]!)), show()) },
    names.map((one) => h("option", null, MODES[one])),
  );

  const clear = (): void => {
    for (const stop of stops) stop();
    for (const { view } of views) view.dispose();
    views = [];
    stops = [];
  };
  const make = (side: Side, isFixed: boolean): void => {
    const caption = div("ll-caption ll-one");
    const half = div("ll-half", caption);
    area.append(half);
    views.push({ view: graphView(store, half, { side, isFixed, minimap: side !== "before" }), caption, side });
  };
  /** One camera moves the other; what one tells because it was moved is no news. */
  const bind = (): void => {
    let isFollowing = false;
    for (const { view } of views)
      stops.push(
        view.onCamera((camera) => {
          if (isFollowing) return;
          isFollowing = true;
          for (const other of views) if (other.view !== view) other.view.camera = camera;
          isFollowing = false;
        }),
      );
  };
  const show = (): void => {
    const { clientWidth } = area, fits = !clientWidth || clientWidth >= 2 * NARROW * typeScale(area);
    const now = store.place.stage === 0 ? "after" : mode || (fits ? "beside" : "both");
    modes.selectedIndex = names.indexOf(now);
    modes.disabled = store.place.stage === 0;
    if (now !== shown) {
      const hadFocus = area.contains(document.activeElement);
      clear();
      fill(area);
      area.className = `ll-pair${now === "over" ? " ll-over" : ""}`;
      const isFixed = now === "fixed" || now === "over";
      const sides: readonly Side[] = isFixed || now === "beside" ? ["before", "after"] : [now];
      // The host is in the page by now, and as large as it will be.
      for (const side of sides) make(side, isFixed);
      if (now === "over") area.append(div("ll-cut"));
      slide.hidden = now !== "over";
      cut();
      isBound = isFixed;
      if (isBound) bind();
      if (hadFocus) views.at(-1)!.view.element.focus({ preventScroll: true });
      shown = now;
    }
    const { stage, firing } = store.place;
    const about = store.run.stages[stage]!;
    const done = firing >= 0 ? `after ${count(firing, "firing")} of ${about.firings}` : stage ? `after ${about.title}` : "as written";
    for (const { view, caption, side } of views) {
      fill(caption, side === "before" ? `before ${about.title}` : side === "both" ? `before and after ${about.title}` : done, ": ", view.amount);
      caption.title = caption.textContent;
    }
  };
  host.append(area, slide);
  show();
  const stop = store.on("place", show);
  // What nobody has chosen goes by the room there is now.
  const watcher = typeof ResizeObserver === "undefined" ? null : new ResizeObserver(() => mode || show());
  watcher?.observe(area);
  return {
    modes,
    views: () => views.map(({ view }) => view),
    leads: () => views.slice(isBound ? -1 : 0).map(({ view }) => view),
    before: () => {
      if (shown !== "after") return;
      mode = "";
      show();
    },
    dispose: () => (stop(), watcher?.disconnect(), clear()),
  };
}
