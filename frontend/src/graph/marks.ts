// Rings around what is selected and related, and the wires of the selection.

import { s } from "../parts/dom";
import { thick, wireData, type Look } from "./drawing";
import { route } from "./routes";
import { outline, tenth } from "./shapes";
import type { Presence } from "../data/presence";
import type { Selected, Store } from "../data/store";
import { css } from "../parts/styles";

css`
.ll-marks path { fill: none; vector-effect: non-scaling-stroke; stroke: var(--ll-high); stroke-width: 2.2px; }
.ll-marks .ll-ring { stroke-width: 3px; }
.ll-marks .ll-halo { stroke-width: 9px; opacity: .3; }
.ll-marks .ll-near { stroke: var(--ll-accent); stroke-width: 2px; stroke-dasharray: 6 3; }
.ll-marks .ll-read { stroke: var(--ll-accent); stroke-dasharray: 7 3; }
.ll-marks .ll-at { stroke: var(--ll-text); stroke-width: 1.5px; opacity: .55; }
`;

/** The wires of more than so many are not followed. */
const FEW = 12;
/** How many dashes a path has at most. */
const DASHES = 400;

/** The ids that are selected themselves, in any stage. */
function chosen({ run }: Store, selected: Selected): Set<number> {
  if (selected.kind === "node") return new Set(selected.ids);
  const own = new Set<number>();
  if (selected.kind === "firing") {
    const firings = run.firings(selected.stage);
    if (selected.firing < firings.count)
      for (const rows of [firings.gone(selected.firing), firings.fresh(selected.firing)]) for (const row of rows) own.add(run.id[row]!);
  }
  return own;
}

/** What is lit: the visible things that are selected, and those that are related to them. */
interface Lit {
  strong: Set<number>;
  soft: Set<number>;
}
/** What was last found for each place that is looked at, and from what. */
const known = new WeakMap<Presence, { of: readonly unknown[]; lit: Lit }>();

/** What is lit in a picture; found anew only where the selection or the picture is another. */
export function litOf(store: Store, look: Look): Lit {
  const of = [store.selected, store.related, store.place, look.scene], last = known.get(look.there);
  if (last?.of.every((one, at) => one === of[at])) return last.lit;
  const lit = found(store, look);
  known.set(look.there, { of, lit });
  return lit;
}

function found(store: Store, { scene, there }: Look): Lit {
  const { selected, run, place } = store, { view } = scene;
  const strong = new Set<number>(), soft = new Set<number>();
  if (!selected) return { strong, soft };
  const own = chosen(store, selected);
  // A picture of a pass shows nodes of both graphs, and of what lived between.
  for (const ids of new Set([place.stage - 1, place.stage].map((stage) => store.related.nodes[Math.max(0, stage)])))
    for (const id of ids ?? []) {
      const row = there.rowOf(id);
      for (const thing of row < 0 ? [] : scene.allStanding(row)) {
        // The closed box that it is in, or the node that a view or a scalar is folded into, is only related.
        const at = view.thing.row[thing]!;
        (own.has(id) && at >= 0 && run.id[at] === id ? strong : soft).add(thing);
      }
    }
  const box = selected.kind === "scope" ? view.thingAt(selected.path) : -1;
  if (box >= 0 && scene.isVisible(box)) {
    strong.add(box);
    if (scene.isOpen(box)) soft.clear();
  }
  for (const one of strong) soft.delete(one);
  return { strong, soft };
}

/** Rings around things, as the data of a path. */
export function ringsOf({ scene, there }: Look, things: Iterable<number>, apart: number): string {
  let data = "";
  for (const thing of things) {
    const rect = scene.rect(thing);
    if (rect && there.has(thing)) data += outline("op", rect.x - apart, rect.y - apart, rect.width + 2 * apart, rect.height + 2 * apart);
  }
  return data;
}

/** How far it is around things, in pixels or nearly so. */
export function lengthOf({ scene, level }: Look, things: Iterable<number>): number {
  let length = 0;
  for (const thing of things) {
    const rect = scene.rect(thing);
    if (rect) length += 2 * (rect.width + rect.height);
  }
  return length / thick(level);
}

/** A style for dashes: browsers work out all of them, in sight or not, so that what is very long has long ones. */
export function dashes(on: number, off: number, length: number): string | null {
  const times = length / (DASHES * (on + off));
  return times > 1 ? `stroke-dasharray:${tenth(on * times)} ${tenth(off * times)}` : null;
}

export function marksOf(store: Store, look: Look, apart: number): SVGPathElement[] {
  const { strong, soft } = litOf(store, look), { scene, there } = look;
  const wires = { up: "", down: "" }, far = { up: 0, down: 0 };
  if (strong.size <= FEW)
    for (const way of ["up", "down"] as const) {
      const seen = new Set<number>();
      for (const thing of strong)
        for (const [frame, one] of route(scene, there, thing, way).wires) {
          const placed = scene.placed(frame);
          if (!placed || seen.has(one)) continue;
          seen.add(one);
          const wire = one - scene.view.frame.wires[frame]!, course = placed.placement.course(wire);
          if (course.length < 3) continue;
          wires[way] += shifted(wireData(scene, placed, { wire, course, isStart: true, isEnd: true }), placed.x, placed.y);
          far[way] += Math.abs(course.at(-1)! - course[2]!) / thick(look.level);
        }
    }
  const chosen = ringsOf(look, strong, apart);
  const paths = [
    ["ll-lit", wires.up, null], ["ll-read", wires.down, dashes(7, 3, far.down)],
    ["ll-near", ringsOf(look, soft, apart), dashes(6, 3, lengthOf(look, soft))], ["ll-halo", chosen, null], ["ll-ring", chosen, null],
  ] as const;
  return paths.filter(([, d]) => d).map(([name, d, style]) => s("path", { class: name, d, style }));
}

/** The data of a wire elsewhere: all of its commands name places outright. */
function shifted(data: string, x: number, y: number): string {
  return data.replace(/([MLC])([^A-Z]*)|V([^A-Z]*)/g, (_, points: string, numbers: string, down: string) =>
    points ? points + numbers.trim().split(" ").map((one, place) => tenth(Number(one) + (place % 2 ? y : x))).join(" ") : `V${tenth(Number(down) + y)}`);
}
