// The whole scene, small, with a frame around what one sees; only there when that is a small part.

import { seen, type Camera, type Size } from "./camera";
import { h, s, set } from "../parts/dom";
import type { Presence } from "../data/presence";
import type { Scene } from "./scene";
import { tenth } from "./shapes";
import { css } from "../parts/styles";

css`
.ll-map { position: absolute; background: var(--ll-ground); border: 1px solid var(--ll-line); border-radius: 4px; cursor: crosshair; touch-action: none; opacity: .92; }
.ll-map { overflow: hidden; }
.ll-map svg { display: block; will-change: transform; pointer-events: none; }
.ll-map div { position: absolute; left: 0; top: 0; border: 1.5px solid var(--ll-accent); transform-origin: 0 0; will-change: transform; }
.ll-map div::before { content: ""; position: absolute; inset: 0; background: var(--ll-accent); opacity: .14; }
`;

/** The most that it takes of a picture. */
const WIDTH = 110, HEIGHT = 150;
/** More of the scene than this on the screen, and no map is needed. */
const ENOUGH = 0.45;
const MOST = 4000;
/** How far it stands from a border, and how large it is: smaller, where only that has room. */
const APART = 10, SIZES = [1, 0.6];

export interface Minimap {
  readonly element: HTMLElement;
  /** Another scene, or other things that are there. */
  show(scene: Scene, there: Presence): void;
  look(camera: Camera, screen: Size): void;
  /** Stand where it covers none of these, in a corner or between two: nowhere, if there is no such place. */
  stand(taken: readonly Place[], screen: Size): void;
}

/** A part of the screen. */
export interface Place {
  readonly left: number;
  readonly top: number;
  readonly right: number;
  readonly bottom: number;
}

/** Where something so large may stand, the best first. */
function standings(width: number, height: number, screen: Size): (readonly [left: number, top: number])[] {
  const [right, bottom] = [screen.width - width - APART, screen.height - height - APART];
  return [bottom, APART, (screen.height - height) / 2].flatMap((top) => [[right, top] as const, [APART, top] as const]);
}

/** `go` is told which point of the scene one wants to see. */
export function minimap(go: (x: number, y: number) => void): Minimap {
  const shapes = s("path", { fill: "var(--ll-edge)", "fill-opacity": 0.9 });
  const boxes = s("path", { fill: "var(--ll-edge)", "fill-opacity": 0.14 });
  const drawing = s("svg", { preserveAspectRatio: "none" }, boxes, shapes);
  // What moves is no part of the drawing, which then is not painted again.
  const here = h("div");
  // Whoever uses the keyboard moves in the picture itself.
  const element = h("div", { class: "ll-map", "aria-hidden": "true" }, drawing, here);
  let scale: readonly [number, number] = [1, 1], size: Size = { width: 1, height: 1 }, whole = size, isHeld = false, share = 1;
  /** Where one looks, whether that asks for a map, and whether there is a place for it. */
  let looks: readonly [Camera, Size] | null = null, isWanted = false, hasPlace = false;
  element.style.display = "none";
  const enlarge = (by: number): void => {
    share = by;
    const { width, height } = size, [w, h] = [whole.width * by, whole.height * by];
    scale = [w / width, h / height];
    set(drawing, { width: tenth(w), height: tenth(h), viewBox: `0 0 ${tenth(width)} ${tenth(height)}` });
  };
  const turn = (): void => void (element.style.display = isWanted && hasPlace ? "" : "none");
  const look = (camera: Camera, screen: Size): void => {
    looks = [camera, screen];
    const rect = seen(camera, screen);
    const part = Math.min(1, rect.width / size.width) * Math.min(1, rect.height / size.height);
    isWanted = part < ENOUGH && screen.width > 4 * WIDTH && screen.height > 260;
    turn();
    // At least a few pixels, however small what one sees is.
    const w = Math.max(6, rect.width * scale[0]), h = Math.max(6, rect.height * scale[1]);
    const x = (rect.x + rect.width / 2) * scale[0] - w / 2, y = (rect.y + rect.height / 2) * scale[1] - h / 2;
    set(here, { style: `width:${tenth(w)}px;height:${tenth(h)}px;transform:translate(${tenth(x)}px,${tenth(y)}px)` });
  };
  const follow = (event: PointerEvent): void => {
    event.stopPropagation();
    if (event.type === "pointerdown") isHeld = true;
    if (event.type === "pointerup" || event.type === "pointercancel") isHeld = false;
    if (!isHeld) return;
    element.setPointerCapture?.(event.pointerId);
    const { left, top } = element.getBoundingClientRect();
    go((event.clientX - left) / scale[0], (event.clientY - top) / scale[1]);
  };
  for (const name of ["pointerdown", "pointermove", "pointerup", "pointercancel"] as const) element.addEventListener(name, follow);
  return {
    element,
    show: (scene, there) => {
      size = { width: Math.max(scene.width, 1), height: Math.max(scene.height, 1) };
      const { width, height } = size, least = Math.min(WIDTH / width, HEIGHT / height);
      // What is very high or very wide keeps a breadth that one can hit.
      whole = { width: Math.max(36, width * least), height: Math.max(36, height * least) };
      enlarge(share);
      let nodes = "", frames = "", count = 0;
      for (const { placement, frame, x, y } of scene.frames) {
        const first = scene.view.frame.things[frame]!;
        if (frame) frames += `M${tenth(x)} ${tenth(y)}h${tenth(placement.width)}v${tenth(placement.height)}h${-tenth(placement.width)}z`;
        for (let place = 0; 4 * place < placement.rects.length && count < MOST; place++) {
          if (placement.inner.has(place) || !there.has(first + place)) continue;
          const rect = placement.rect(place);
          count++;
          nodes += `M${tenth(x + rect.x)} ${tenth(y + rect.y)}h${tenth(rect.width)}v${tenth(rect.height)}h${-tenth(rect.width)}z`;
        }
      }
      shapes.setAttribute("d", nodes);
      boxes.setAttribute("d", frames);
    },
    look,
    stand: (taken, screen) => {
      if (!isWanted || isHeld) return;
      const isFree = (left: number, top: number, right: number, bottom: number): boolean => !taken.some((one) => left < one.right && right > one.left && top < one.bottom && bottom > one.top);
      const found = SIZES.flatMap((by) => {
        const [w, h] = [whole.width * by + 2, whole.height * by + 2];
        return standings(w, h, screen).filter(([left, top]) => isFree(left - 2, top - 2, left + w + 2, top + h + 2)).map((place) => ({ by, place }));
      })[0];
      hasPlace = !!found;
      if (found) {
        if (found.by !== share) enlarge(found.by);
        const [left, top] = found.place;
        [element.style.left, element.style.top] = [`${tenth(left)}px`, `${tenth(top)}px`];
        if (looks) look(...looks);
      }
      turn();
    },
  };
}
