// Where wires leave the screen: stubs at its border, which say what is at the other end and lead there.

import { seen } from "./camera";
import { h } from "../parts/dom";
import { textWidth } from "../data/metrics";
import { titleLeft, titleOf } from "./drawing";
import { routeCourse, type Point } from "./ends";
import { WORD } from "./lod";
import type { Place } from "./minimap";
import type { Sight } from "./painter";
import { route } from "./routes";
import { TOP } from "./scene";
import { shortened } from "./shapes";
import { css } from "../parts/styles";

css`
.ll-stubs { position: absolute; inset: 0; pointer-events: none; overflow: hidden; }
.ll-stubs > button { position: absolute; pointer-events: auto; font: 11px/16px var(--ll-mono); padding: 0 5px; max-width: calc(170px * var(--ll-type, 1)); overflow: hidden; text-overflow: ellipsis; white-space: nowrap; color: var(--ll-text); background: var(--ll-panel); border: 1px solid var(--ll-edge); border-radius: 8px; cursor: pointer; }
.ll-stubs > button:hover { border-color: var(--ll-accent); color: var(--ll-accent); }
`;

/** What is no further outside than so many pixels is found without help. */
const NEAR = 60;
/** Of more than so many things in sight none has stubs: one sees no single wires. */
const FEW = 90;
/** So many stubs at most; those of what stands nearest the border come first. */
const MOST = 16;
const HEIGHT = 18, LETTER = 6.7, PAD = 14, LONGEST = 24, EDGE = 3, WIDEST = 170;
/** So many rows of stubs stand at a border at most. */
const ROWS = 3;

type Border = "top" | "bottom" | "left" | "right";
const ARROWS: Readonly<Record<Border, string>> = { top: "↑", bottom: "↓", left: "←", right: "→" };

export interface Stub {
  readonly border: Border;
  /** Where the wire leaves, on the screen. */
  readonly x: number;
  readonly y: number;
  readonly words: string;
  /** What it leads to. */
  readonly thing: number;
}

/** The stubs of all that is in sight. */
export function stubsOf(sight: Sight): Stub[] {
  const { scene, there, camera, size, level } = sight, { view } = scene;
  if (!level.detail || !size.width) return [];
  const onScreen = ([x, y]: Point): Point => [x * camera.scale + camera.x, y * camera.scale + camera.y];
  const isSeen = (thing: number, more = 0): boolean => {
    const rect = scene.rect(thing);
    if (!rect) return false;
    const [left, top] = onScreen([rect.x, rect.y]), [right, bottom] = onScreen([rect.x + rect.width, rect.y + rect.height]);
    return right > -more && bottom > -more && left < size.width + more && top < size.height + more;
  };
  const here = scene.within(seen(camera, size)).filter((thing) => !scene.isOpen(thing) && there.has(thing));
  if (here.length > FEW) return [];
  const found: Stub[] = [];
  for (const thing of here)
    for (const way of ["up", "down"] as const) {
      const { wires, things } = route(scene, there, thing, way);
      const away = things.filter((one) => !isSeen(one, NEAR));
      if (!away.length) continue;
      for (const [frame, wire] of wires) {
        const leaves = border(routeCourse(scene, frame, wire, way).map(onScreen), size.width, size.height);
        if (!leaves) continue;
        const row = view.wire.carried[wire]!, source = scene.standing(row);
        // Up there is what is carried; down all that reads it.
        const ends = way === "up" ? away.filter((one) => one === source) : away;
        if (!ends.length || (way === "down" && !isSeen(source))) continue;
        const end = ends[0]!, words = ends.length > 1 ? `${ends.length} readers` : nameOf(sight, end);
        // Wires that go to one and the same place beside each other say so once.
        if (!found.some((one) => one.border === leaves.border && one.thing === end && Math.hypot(one.x - leaves.x, one.y - leaves.y) < WIDEST))
          found.push({ ...leaves, words: `${ARROWS[leaves.border]} ${shortened(words, LONGEST)}`, thing: end });
      }
    }
  return found.slice(0, MOST);
}

function nameOf({ scene, there }: Sight, thing: number): string {
  const row = there.row(thing);
  return row < 0 ? scene.view.box(thing)!.name : /^(input|parameter)$/.test(there.run.kind(row)) ? there.run.label(row) : `${there.run.label(row)} %${there.run.name(row)}`;
}

/** Where a line that begins on the screen leaves it. */
function border(points: readonly Point[], width: number, height: number): Pick<Stub, "border" | "x" | "y"> | null {
  const isIn = ([x, y]: Point): boolean => x >= 0 && y >= 0 && x <= width && y <= height;
  for (let at = 1; at < points.length; at++) {
    const [from, to] = [points[at - 1]!, points[at]!];
    if (!isIn(from) || isIn(to)) continue;
    const [x, y] = from, byX = to[0] - x, byY = to[1] - y;
    const shares: [Border, number][] = [];
    if (byY) shares.push(byY < 0 ? ["top", -y / byY] : ["bottom", (height - y) / byY]);
    if (byX) shares.push(byX < 0 ? ["left", -x / byX] : ["right", (width - x) / byX]);
    const [side, share] = shares.sort((one, other) => one[1] - other[1])[0]!;
    return { border: side, x: x + byX * share, y: y + byY * share };
  }
  return null;
}

/** Where things are that one sees, on the screen; of boxes that are open their titles. */
export function thingsOf(sight: Sight): Place[] {
  const { scene, there, camera, size } = sight, { x, y, scale } = camera, { view } = scene;
  return scene.within(seen(camera, size)).filter((thing) => there.has(thing)).map((thing) => {
    const rect = scene.rect(thing)!, isOpen = scene.isOpen(thing), top = rect.y * scale + y;
    const left = (isOpen ? titleLeft(sight, camera, thing) - 10 : rect.x) * scale + x;
    const width = isOpen ? Math.min(rect.width, textWidth(titleOf(view.box(thing)!), WORD) + TOP) : rect.width;
    return { left, top, right: left + width * scale, bottom: top + (isOpen ? TOP : rect.height) * scale };
  });
}

/** Where a stub so wide may stand: over its wire, the nearest to where that leaves first. */
function placesOf({ border, x, y }: Stub, own: number, { size: { width, height }, type = 1 }: Sight): Place[] {
  const isLevel = border === "top" || border === "bottom", high = HEIGHT * type, step = high + 2;
  const at = (left: number, top: number): Place => {
    const [fromLeft, fromTop] = [Math.max(EDGE, Math.min(width - own - EDGE, left)), Math.max(EDGE, Math.min(height - high - EDGE, top))];
    return { left: fromLeft, top: fromTop, right: fromLeft + own, bottom: fromTop + high };
  };
  return Array.from({ length: ROWS }, (_, row) =>
    isLevel
      ? [0.5, 0.06, 0.94].map((share) => at(x - share * own, border === "top" ? EDGE + row * step : height - high - EDGE - row * step))
      : [-row, row].map((rows) => at(border === "left" ? 0 : width, y - high / 2 + rows * step)),
  ).flat();
}

/** Draw stubs, so that none lies over another, over a thing or over what is taken: where there is little room, as arrows alone. */
export function drawStubs(host: HTMLElement, stubs: readonly Stub[], sight: Sight, around: readonly Place[], go: (thing: number) => void): void {
  const taken = [...around], things = stubs.length ? thingsOf(sight) : [];
  const names = things.map(({ left, right, ...rest }) => ({ ...rest, left: left + (right - left) / 6, right: right - (right - left) / 6 }));
  const isFree = (place: Place, of: readonly Place[]): boolean => !of.some((one) => place.left < one.right + 2 && place.right + 2 > one.left && place.top < one.bottom + 1 && place.bottom + 1 > one.top);
  host.replaceChildren(
    ...stubs.flatMap((stub) => {
      const arrow = ARROWS[stub.border];
      // An arrow that has no room of its own covers a thing's side, right at the border, and not its name.
      for (const [words, free, most] of [[stub.words, things, Infinity], [arrow, things, Infinity], [arrow, names, 3]] as const) {
        const places = placesOf(stub, (sight.type ?? 1) * Math.min(WIDEST, words.length * LETTER + PAD), sight).slice(0, most);
        const place = places.find((one) => isFree(one, taken) && isFree(one, free));
        if (!place) continue;
        taken.push(place);
        const one = h("button", { type: "button", tabindex: -1, style: `left:${Math.round(place.left)}px;top:${Math.round(place.top)}px`, title: `Go to ${stub.words.slice(2)}` }, words);
        one.addEventListener("pointerdown", (event) => event.stopPropagation());
        one.addEventListener("click", () => go(stub.thing));
        return [one];
      }
      return [];
    }),
  );
}
