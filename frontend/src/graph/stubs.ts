// Where wires leave the screen: stubs at its border, which say what is at the other end and lead there.

import { h } from "../parts/dom";
import { routeCourse, type Point } from "./ends";
import type { Sight } from "./painter";
import { route } from "./routes";
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
const HEIGHT = 18, LETTER = 6.7, PAD = 14, LONGEST = 24, EDGE = 3;

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
  const area = { x: -camera.x / camera.scale, y: -camera.y / camera.scale, width: size.width / camera.scale, height: size.height / camera.scale };
  const seen = scene.within(area).filter((thing) => !scene.isOpen(thing) && there.has(thing));
  if (seen.length > FEW) return [];
  const found = new Map<string, Stub>();
  for (const thing of seen)
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
        const key = `${leaves.border} ${end} ${Math.round((leaves.border === "top" || leaves.border === "bottom" ? leaves.x : leaves.y) / 12)}`;
        if (!found.has(key)) found.set(key, { ...leaves, words: `${ARROWS[leaves.border]} ${shortened(words, LONGEST)}`, thing: end });
      }
    }
  return [...found.values()].slice(0, MOST);
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

interface Place {
  readonly left: number;
  readonly top: number;
  readonly right: number;
  readonly bottom: number;
}

/** Draw stubs, each where its wire leaves or beside that, so that none lies over another or over what is taken. */
export function drawStubs(host: HTMLElement, stubs: readonly Stub[], { size: { width, height }, type = 1 }: Pick<Sight, "size" | "type">, around: readonly Place[], go: (thing: number) => void): void {
  const taken = [...around], high = HEIGHT * type;
  host.replaceChildren(
    ...stubs.flatMap(({ border, x, y, words, thing }) => {
      const own = type * Math.min(170, words.length * LETTER + PAD), isLevel = border === "top" || border === "bottom";
      let left = Math.max(EDGE, Math.min(width - own - EDGE, border === "left" ? EDGE : x - own / 2));
      let top = Math.max(EDGE, Math.min(height - high - EDGE, border === "top" ? EDGE : border === "bottom" ? height : y - high / 2));
      if (border === "right") left = width - own - EDGE;
      for (let turn = 0; turn < 4; turn++) {
        const over = taken.find((one) => left < one.right + 2 && left + own + 2 > one.left && top < one.bottom + 1 && top + high + 1 > one.top);
        if (!over) {
          taken.push({ left, top, right: left + own, bottom: top + high });
          const one = h("button", { type: "button", tabindex: -1, style: `left:${Math.round(left)}px;top:${Math.round(top)}px`, title: `Go to ${words.slice(2)}` }, words);
          one.addEventListener("pointerdown", (event) => event.stopPropagation());
          one.addEventListener("click", () => go(thing));
          return [one];
        }
        if (isLevel) top = border === "top" ? over.bottom + 2 : over.top - high - 2;
        else top = over.bottom + 2;
      }
      return [];
    }),
  );
}
