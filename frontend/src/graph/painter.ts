// Draws what one sees of a scene, and keeps it drawn while one moves about.
//
// A picture is made of the parts of frames (scene.ts), each drawn once and then only moved. The sheet
// that it is drawn on is somewhat larger than what one sees of it: while one pans or zooms, it is moved
// and stretched as it is and not painted again, until its border comes into sight or one pauses.

import { seen, type Camera, type Size } from "./camera";
import { h, s } from "../parts/dom";
import { drawn, shownOf, titleLeft, titleTop, type Drawn, type Look, type Shown } from "./drawing";
import { levelAt, type Level } from "./lod";
import type { Presence } from "../data/presence";
import { meets, type Cell, type Placed, type Placement, type Scene } from "./scene";
import { tenth } from "./shapes";
import { css } from "../parts/styles";

css`
.ll-sheet { position: absolute; inset: -300px; will-change: transform; transform-origin: 300px 300px; }
.ll-sheet svg { display: block; width: 100%; height: 100%; }
.ll-sheet g { pointer-events: none; }
`;

/** By how many pixels the sheet is larger than what one sees, on each side: as its style says. */
const MARGIN = 300;
/** Of a box that is narrower or lower than so many pixels one sees nothing but its outline. */
const LEAST = 8;
/** How far around what one sees parts are drawn, and how far away they are taken off. */
const NEAR = MARGIN + 160, FAR = 1400;
/** After how many pixels one looks for what came into sight. */
const STEP = 80;
/** By how much a painting is stretched at most, and for how many milliseconds after the scale has changed. */
const MOST = 3, PAUSE = 80;
/** Milliseconds of drawing in one go: while one moves, and after something was done. */
const GO = 10, LONG = 30;
/** Milliseconds of an animation, and of one that tells what became of what. */
export const SHORT = 140, LONGER = 420;
/** More than this does not glide, but is there at once. */
const MANY = 300;

/** What is drawn, and by how much its letters are to be larger than usual; whoever draws changes it and then says so. */
export type Sight = { -readonly [K in keyof Look]: Look[K] } & { camera: Camera; size: Size; readonly type?: number };

export interface Painter {
  readonly sheet: HTMLElement;
  /** Lies over all that is drawn, in the scene's own units. */
  readonly over: SVGGElement;
  readonly tooltip: SVGTitleElement;
  readonly isEmpty: boolean;
  /** Another camera. */
  move(): void;
  /** Another scene, place or overlay; `afresh` draws even what looks the same. */
  draw(afresh?: boolean): void;
  /** Have what stood elsewhere in a scene before glide to its new place, all moved by so much; what was not there appears. */
  glide(before: Scene, byX: number, byY: number, duration?: number): void;
  /** Have titles begin where one sees them. */
  name(): void;
  /** Draw now what waits for its time. */
  flush(): void;
  dispose(): void;
}

interface Part extends Drawn {
  readonly placement: Placement;
  readonly level: Level;
  /** What of it is there, and the place that this was last compared with. */
  shown: string;
  there: Presence | null;
  x: number;
  y: number;
}

type Wanted = readonly [away: number, key: string, placed: Placed, cell: Cell];

/** `levelled` is called when another level of detail is drawn. */
export function painter(sight: Sight, levelled: () => void): Painter {
  const hidden = { "aria-hidden": "true" };
  const drawings = s("g", hidden), titles = s("g", hidden), over = s("g"), tooltip = s("title");
  const world = s("g", null, drawings, titles, over);
  // What moves is what the SVG lies on: moving an SVG itself makes browsers measure its texts again.
  const sheet = h("div", { class: "ll-sheet" }, s("svg", null, tooltip, world));
  const parts = new Map<string, Part>(), layers: SVGGElement[] = [];
  /** The cameras of the last painting, and of the last look for what should be drawn: none yet. */
  let base: Camera = { x: 0, y: 0, scale: 0 }, looked = base, queue: Wanted[] = [], waiting = 0;
  /** The scale of the last move, and the clock that waits for a pause. */
  let last = 0, pause = 0;

  const place = (part: Part, { x, y }: Placed): void => {
    part.x = x;
    part.y = y;
    for (const one of [part.element, part.title]) one?.setAttribute("transform", `translate(${tenth(x)} ${tenth(y)})`);
  };
  const away = (key: string, part: Part): void => {
    part.element.remove();
    part.title?.remove();
    parts.delete(key);
  };

  /** Find what should be drawn, take off what is far away, and draw the rest, the nearest first. */
  const look = (most = LONG): void => {
    const { camera, size, scene, there } = sight, level = levelAt(camera.scale, sight.type), isOther = level !== sight.level;
    if (!size.width) return;
    looked = camera;
    sight.level = level;
    const near = seen(camera, size, NEAR), far = seen(camera, size, FAR), kept = new Set<string>();
    const x = near.x + near.width / 2, y = near.y + near.height / 2;
    queue = [];
    for (const placed of scene.frames) {
      const { placement, below } = placed;
      if (placed.frame && Math.min(placement.width, placement.height) * camera.scale < LEAST) continue;
      if (!meets({ left: -8, top: -50, right: placement.width + 8, bottom: placement.height + below + 50 }, far, placed.x, placed.y)) continue;
      placement.parts.forEach((cell, at) => {
        if (!meets(cell, far, placed.x, placed.y)) return;
        const key = `${placed.frame}:${at}`, part = parts.get(key), isNear = meets(cell, near, placed.x, placed.y);
        const isSame = part?.placement === placement && part.level === level && (part.there === there || part.shown === keyOf(sight, placed, shownOf(sight, placed, cell)));
        // What is to be drawn anew is seen as it was until then, unless nobody sees it.
        if (isSame || isNear) kept.add(key);
        if (part?.placement === placement && (part.x !== placed.x || part.y !== placed.y)) place(part, placed);
        if (isSame) part.there = there;
        if (isSame || !isNear) return;
        queue.push([Math.hypot(placed.x + (cell.left + cell.right) / 2 - x, placed.y + (cell.top + cell.bottom) / 2 - y), key, placed, cell]);
      });
    }
    for (const [key, part] of parts) if (!kept.has(key)) away(key, part);
    queue.sort((a, b) => a[0] - b[0]);
    work(most);
    if (isOther) levelled();
  };

  /** Draw for some milliseconds; the rest when there is time. */
  const work = (most: number): void => {
    idle.cancel(waiting);
    const end = performance.now() + most;
    for (let one = queue.shift(); one; one = performance.now() < end ? queue.shift() : undefined) {
      const [, key, placed, cell] = one, shown = shownOf(sight, placed, cell), before = parts.get(key);
      const part: Part = {
        ...drawn(sight, placed, cell, shown), placement: placed.placement, level: sight.level, shown: keyOf(sight, placed, shown), there: sight.there, x: 0, y: 0,
      };
      place(part, placed);
      // Outer frames lie below inner ones.
      while (layers.length <= placed.depth) drawings.append((layers[layers.length] = s("g")));
      if (before) {
        before.element.replaceWith(part.element);
        away(key, before);
      } else layers[placed.depth]!.append(part.element);
      parts.set(key, part);
      if (part.title) titles.append(part.title);
    }
    if (queue.length) waiting = idle.ask(work);
    else name();
  };
  const name = (): void => {
    const { scene, camera } = sight;
    for (const [key, { title, level, x, y }] of parts) {
      const frame = Number(key.split(":")[0]);
      if (!title || !level.detail || !scene.placed(frame)) continue;
      title.setAttribute("x", String(tenth(titleLeft(sight, camera, scene.view.frame.box[frame]!) - x)));
      title.setAttribute("y", String(tenth(titleTop(sight, camera, y) - y)));
    }
  };

  /** Paint at the present scale and place. */
  const settle = (): void => {
    clearTimeout(pause);
    base = sight.camera;
    world.setAttribute("transform", `matrix(${base.scale} 0 0 ${base.scale} ${base.x + MARGIN} ${base.y + MARGIN})`);
    sheet.style.transform = "translate(0px,0px)";
  };
  const refresh = (): void => {
    settle();
    look();
  };

  const move = (): void => {
    const { camera, size } = sight, times = camera.scale / base.scale, x = camera.x - times * base.x, y = camera.y - times * base.y;
    const covers = (from: number, length: number): boolean => from <= times * MARGIN && from + times * (length + MARGIN) >= length;
    if (!(times <= MOST && covers(x, size.width) && covers(y, size.height))) settle();
    else {
      sheet.style.transform = `translate(${x}px,${y}px)${times === 1 ? "" : ` scale(${times})`}`;
      if (camera.scale !== last) {
        clearTimeout(pause);
        if (times !== 1) pause = setTimeout(refresh, PAUSE) as unknown as number;
      }
    }
    last = camera.scale;
    const isFar = looked.scale !== camera.scale || Math.abs(camera.x - looked.x) > STEP || Math.abs(camera.y - looked.y) > STEP;
    if (camera.scale === base.scale && isFar) look(GO);
  };

  return {
    sheet, over, tooltip, move, name,
    get isEmpty() {
      return !parts.size;
    },
    draw: (afresh) => {
      if (sight.camera.scale !== base.scale) settle();
      if (afresh) for (const part of parts.values()) [part.shown, part.there] = ["", null];
      look();
    },
    glide: (before, byX, byY, duration = SHORT) => {
      let count = 0;
      const appear = (element: Element): void => void element.animate?.([{ opacity: 0 }, { opacity: 1 }], { duration });
      const { scene, camera } = sight;
      const glideOne = (element: Element, x: number, y: number, left: number, top: number) => {
        if (Math.hypot(left, top) * camera.scale < 2 || count++ > MANY) return;
        element.animate?.([{ transform: `translate(${x + left}px,${y + top}px)` }, { transform: `translate(${x}px,${y}px)` }], { duration, easing: "ease-out" });
      };
      for (const [key, { element, things, placement, x, y }] of parts) {
        const frame = Number(key.split(":")[0]), placed = scene.placed(frame), old = before.placed(frame);
        if (!placed || !old) appear(element);
        else if (old.placement === placement) glideOne(element, x, y, old.x - placed.x + byX, old.y - placed.y + byY);
        else {
          for (const [thing, one] of things) {
            const was = before.rect(thing), is = scene.rect(thing);
            if (was && is) glideOne(one, 0, 0, was.x - is.x + byX, was.y - is.y + byY);
            else appear(one);
          }
          if (count <= MANY) element.querySelectorAll(".ll-wire").forEach(appear);
        }
      }
    },
    flush: () => {
      if (sight.camera.scale !== base.scale) refresh();
      work(Infinity);
    },
    dispose: () => {
      clearTimeout(pause);
      idle.cancel(waiting);
    },
  };
}

/** What is the same for parts that look the same: what is there, what became of it, and how much is in its boxes. */
function keyOf({ there }: Look, { frame }: Placed, { things, pieces }: Shown): string {
  const { view } = there, first = view.frame.things[frame]!, firstWire = view.frame.wires[frame]!;
  const told = (place: number): string => {
    const row = there.row(first + place);
    return `${place}:${row < 0 ? Object.values(there.inBox(first + place)).join("/") : `${row}/${there.status(first + place)}`}`;
  };
  return `${there.isOwn} ${things.map(told).join()} ${pieces.map(({ wire }) => `${wire}/${there.wireStatus(firstWire + wire, frame)}`).join()}`;
}

/** Work for when nothing else is to be done; where that cannot be asked for, in the next frame. */
const idle = {
  ask: (work: (left: number) => void): number =>
    typeof requestIdleCallback === "function"
      ? requestIdleCallback((deadline) => work(Math.max(4, Math.min(LONG, deadline.timeRemaining()))), { timeout: 100 })
      : requestAnimationFrame(() => work(GO)),
  cancel: (asked: number): void => (typeof cancelIdleCallback === "function" ? cancelIdleCallback(asked) : cancelAnimationFrame(asked)),
};
