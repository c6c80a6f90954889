// What outlines and signs mean that a picture has at present: drawn as the picture draws them.

import { STATUS } from "./drawing";
import { div, fill, h, s } from "../parts/dom";
import { outline } from "./shapes";
import { Presence } from "../data/presence";
import type { Pane, Side, Store } from "../data/store";
import { css } from "../parts/styles";
import { ADDED, PASSING, REMOVED, REWIRED } from "../data/view";

css`
.ll-foot { display: flex; flex-wrap: wrap; gap: 0 12px; padding: 2px 8px; font-size: 11px; line-height: 20px; color: var(--ll-faint); border-top: 1px solid var(--ll-line); flex: none; }
.ll-foot:not(:has(li, .ll-extent)) { display: none; }
.ll-key-of { display: flex; flex-wrap: wrap; gap: 0 12px; margin: 0; padding: 0; list-style: none; flex: 1 1 auto; }
.ll-key-of li { display: inline-flex; align-items: center; gap: 5px; white-space: nowrap; }
.ll-key-of svg { width: 30px; height: 18px; flex: none; overflow: visible; }
.ll-key-of text { font: bold 11px var(--ll-font); text-anchor: middle; fill: var(--ll-text); }
`;

const WORDS: Readonly<Record<number, string>> = { [ADDED]: "added", [REMOVED]: "removed", [REWIRED]: "reads other nodes", [PASSING]: "gone by the end of the pass" };

/** A list below the pictures, which shrinks to what there is to tell apart; beside it stands how much is shown, if nothing else says that. */
export function pictureKey(store: Store, host: HTMLElement, amount?: HTMLElement, side: Side = "both"): Pane {
  const list = h("ul", { class: "ll-key-of", "aria-label": "What outlines mean" });
  const swatch = (kind: string, more: string, sign = ""): SVGElement =>
    s(
      "svg",
      { "aria-hidden": "true", class: "ll-graph-key" },
      s("path", { d: outline("op", 5, 3, 20, 12), class: more, fill: `var(--ll-${kind}-fill)`, stroke: `var(--ll-${kind}-line)`, "stroke-width": kind === "op" ? 1.2 : 2 }),
      sign && s("text", { x: 15, y: 13, style: `fill:var(--ll-${kind}-line)` }, sign),
    );
  const ring = (...classes: string[]): SVGElement => {
    const one = swatch("op", "");
    one.append(s("g", { class: "ll-marks" }, classes.map((name) => s("path", { class: name, d: outline("op", 3, 1, 24, 16) }))));
    return one;
  };
  const entry = (picture: SVGElement, words: string): HTMLElement => h("li", null, picture, words);
  /** What there is to tell apart in the graphs in sight. */
  const seen = (): ReadonlySet<number | "view" | "unused"> => {
    const { run, place } = store, there = new Presence(run, place, side), { thing } = there.view, found = new Set<number | "view" | "unused">();
    for (let one = 0; one < there.view.things; one++) {
      if (!there.has(one)) continue;
      const status = there.status(one), row = thing.row[one]!;
      found.add(status);
      if (there.isUnused(one)) found.add("unused");
      // What is gone is drawn as that, whatever it was.
      if (row >= 0 && status !== REMOVED && run.kind(row) === "view") found.add("view");
    }
    return found;
  };
  let at: unknown = store.place, known = seen();
  const draw = (): void => {
    const { place, selected, related } = store, { stage } = place;
    if (place !== at) [at, known] = [place, seen()];
    fill(
      list,
      [ADDED, REMOVED, REWIRED, PASSING].filter((status) => known.has(status)).map((status) => {
        const [name, sign] = STATUS[status]!;
        return entry(swatch(name, status === REMOVED || status === PASSING ? "ll-broken" : "", sign), WORDS[status]!);
      }),
      known.has("view") && entry(swatch("view", "ll-dotted"), "view"),
      known.has("unused") && entry(swatch("op", "ll-pale", "∅"), "used by nothing"),
      selected && [entry(ring("ll-halo", "ll-ring"), "selected"), related.nodes[stage]?.size ? entry(ring("ll-near"), "comes of it, or holds it") : null],
    );
  };
  host.append(div("ll-foot", list, amount));
  const stops = [store.on("place", draw), store.on("selection", draw), store.on("bundle", () => ((at = null), draw()))];
  draw();
  return { dispose: () => stops.forEach((stop) => stop()) };
}
