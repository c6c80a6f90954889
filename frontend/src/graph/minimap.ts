// The whole scene, small, with a frame around what one sees; only there when that is a small part.

import { seen, type Camera, type Size } from "./camera";
import { h, s, set } from "../parts/dom";
import type { Presence } from "../data/presence";
import type { Scene } from "./scene";
import { tenth } from "./shapes";
import { css } from "../parts/styles";

css`
.ll-map { position: absolute; right: 10px; bottom: 10px; background: var(--ll-ground); border: 1px solid var(--ll-line); border-radius: 4px; cursor: crosshair; touch-action: none; opacity: .92; }
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

export interface Minimap {
  readonly element: HTMLElement;
  /** Another scene, or other things that are there. */
  show(scene: Scene, there: Presence): void;
  look(camera: Camera, screen: Size): void;
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
  let scale: readonly [number, number] = [1, 1], size: Size = { width: 1, height: 1 }, isHeld = false;
  element.style.display = "none";
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
      const w = Math.max(36, width * least), h = Math.max(36, height * least);
      scale = [w / width, h / height];
      set(drawing, { width: tenth(w), height: tenth(h), viewBox: `0 0 ${tenth(width)} ${tenth(height)}` });
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
    look: (camera, screen) => {
      const rect = seen(camera, screen);
      const share = Math.min(1, rect.width / size.width) * Math.min(1, rect.height / size.height);
      element.style.display = share < ENOUGH && screen.width > 4 * WIDTH && screen.height > 260 ? "" : "none";
      // At least a few pixels, however small what one sees is.
      const w = Math.max(6, rect.width * scale[0]), h = Math.max(6, rect.height * scale[1]);
      const x = (rect.x + rect.width / 2) * scale[0] - w / 2, y = (rect.y + rect.height / 2) * scale[1] - h / 2;
      set(here, { style: `width:${tenth(w)}px;height:${tenth(h)}px;transform:translate(${tenth(x)}px,${tenth(y)}px)` });
    },
  };
}
