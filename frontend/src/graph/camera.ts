// Where one looks from, and the gestures that change it: wheel, drag, two fingers.

import type { Rect } from "./scene";

/** A point p of the scene is at p · scale + (x, y) on the screen. */
export interface Camera {
  readonly x: number;
  readonly y: number;
  readonly scale: number;
}

export interface Size {
  readonly width: number;
  readonly height: number;
}

const MOST = 4, LEAST = 0.001;
/** What fits is no larger than this: small graphs have no larger letters than what is around them. */
export const NEAREST = 1.2;

export function moved(camera: Camera, x: number, y: number): Camera {
  return { ...camera, x: camera.x + x, y: camera.y + y };
}

/** Closer or further away, with a point of the screen staying where it is. */
export function zoomed(camera: Camera, factor: number, x: number, y: number): Camera {
  const scale = Math.min(MOST, Math.max(LEAST, camera.scale * factor));
  const ratio = scale / camera.scale;
  return { scale, x: x - (x - camera.x) * ratio, y: y - (y - camera.y) * ratio };
}

/** All of a rectangle in the middle of the screen, as large as may be. */
export function fitted(rect: Rect, screen: Size, most = NEAREST, border = 18): Camera {
  const scale = Math.min(most, (screen.width - 2 * border) / rect.width, (screen.height - 2 * border) / rect.height);
  return centred(rect, screen, Math.max(scale, LEAST));
}

/** The width of a rectangle, from its top on: what is much higher than wide is read downwards. */
export function fromTop(rect: Rect, screen: Size, most = NEAREST, border = 18): Camera {
  const scale = Math.max(LEAST, Math.min(most, (screen.width - 2 * border) / rect.width));
  return { ...centred(rect, screen, scale), y: border - rect.y * scale };
}

/** A part of a whole at a scale, in the middle or from its upper left corner on; no nearer to a border than the whole is. */
export function towards(part: Rect, whole: Rect, screen: Size, scale: number, border = 18): Camera {
  const { x, y } = centred(part, screen, scale);
  const within = (at: number, from: number, length: number, own: number, all: number, room: number): number => {
    // What is longer than the screen begins at its start; what is whole stands in the middle.
    if (all * scale + 2 * border <= room) return (room - all * scale) / 2 - own * scale;
    const start = length * scale + 2 * border > room ? border - from * scale : at;
    return Math.min(border - own * scale, Math.max(room - border - (own + all) * scale, start));
  };
  return { scale, x: within(x, part.x, part.width, whole.x, whole.width, screen.width), y: within(y, part.y, part.height, whole.y, whole.height, screen.height) };
}

/** The rectangle around some. */
export function around(rects: readonly Rect[]): Rect {
  const x = Math.min(...rects.map((one) => one.x)), y = Math.min(...rects.map((one) => one.y));
  return {
    x, y,
    width: Math.max(...rects.map((one) => one.x + one.width)) - x,
    height: Math.max(...rects.map((one) => one.y + one.height)) - y,
  };
}

/** Less room than this beside what covers a picture is none. */
const ROOM = 120;

/** From where to where a picture is not covered by something that lies over it; all of it where too little would be left. */
export function beyond({ left, right }: { left: number; right: number }, cover?: { left: number; right: number }): { from: number; to: number } {
  const all = { from: 0, to: right - left };
  if (!cover || cover.right <= left || cover.left >= right) return all;
  const before = { from: 0, to: cover.left - left }, behind = { from: cover.right - left, to: all.to };
  const room = before.to > behind.to - behind.from ? before : behind;
  return room.to - room.from < ROOM ? all : room;
}

/** Of rectangles, from above, those that one sees at once where there are first half as many as anywhere. */
export function densest(rects: readonly Rect[], screen: Size, scale: number, border = 18): readonly Rect[] {
  const width = (screen.width - 2 * border) / scale, height = (screen.height - 2 * border) / scale;
  const together = rects.map((first, start) => {
    const found = [first];
    let left = first.x, right = first.x + first.width;
    for (let at = start + 1; at < rects.length && rects[at]!.y <= first.y + height; at++) {
      const one = rects[at]!, from = Math.min(left, one.x), to = Math.max(right, one.x + one.width);
      if (one.y + one.height > first.y + height || to - from > width) continue;
      found.push(one);
      [left, right] = [from, to];
    }
    return found;
  });
  const most = together.reduce((most, found) => Math.max(most, found.length), 0);
  return together.find((found) => 2 * found.length >= most) ?? [];
}

export function centred(rect: Rect, screen: Size, scale: number): Camera {
  return {
    scale,
    x: screen.width / 2 - (rect.x + rect.width / 2) * scale,
    y: screen.height / 2 - (rect.y + rect.height / 2) * scale,
  };
}

/** What of the scene is on the screen, and so many pixels around it. */
export function seen({ x, y, scale }: Camera, screen: Size, more = 0): Rect {
  return {
    x: (-x - more) / scale, y: (-y - more) / scale,
    width: (screen.width + 2 * more) / scale, height: (screen.height + 2 * more) / scale,
  };
}

export interface Gestures {
  pan(x: number, y: number): void;
  zoom(factor: number, x: number, y: number): void;
  /** Pressed and let go at one point. */
  tap(x: number, y: number, event: PointerEvent): void;
  point(x: number, y: number): void;
  leave(): void;
  /** Whether the wheel is ours. */
  wheels(event: WheelEvent): boolean;
}

const STILL = 4;

/** Listen to pointers and the wheel; returns how to stop. */
export function gestures(element: HTMLElement, on: Gestures): () => void {
  const down = new Map<number, { x: number; y: number }>();
  let start: { x: number; y: number } | null = null;
  let isMoving = false;
  // Where the element is, read once when the pointer comes, not at each of its moves.
  let corner: { left: number; top: number } | null = null;
  const at = (event: MouseEvent): [number, number] => {
    corner ??= element.getBoundingClientRect();
    return [event.clientX - corner.left, event.clientY - corner.top];
  };
  const pressed = (event: PointerEvent) => {
    if (event.button > 0) return;
    corner = null;
    down.set(event.pointerId, { x: event.clientX, y: event.clientY });
    start = down.size === 1 ? { x: event.clientX, y: event.clientY } : null;
    isMoving = false;
  };
  const move = (event: PointerEvent) => {
    const last = down.get(event.pointerId);
    if (!last) {
      if (!event.buttons) on.point(...at(event));
      return;
    }
    if (start && !isMoving && Math.hypot(event.clientX - start.x, event.clientY - start.y) < STILL) return;
    if (!isMoving) {
      isMoving = true;
      for (const id of down.keys()) element.setPointerCapture?.(id);
      element.classList.add("ll-moving");
    }
    const others = [...down].filter(([id]) => id !== event.pointerId).map(([, one]) => one);
    const other = others[0];
    if (other) {
      const before = Math.hypot(last.x - other.x, last.y - other.y), now = Math.hypot(event.clientX - other.x, event.clientY - other.y);
      const [x, y] = at(event), middle = [x + (other.x - event.clientX) / 2, y + (other.y - event.clientY) / 2] as const;
      on.pan((event.clientX - last.x) / 2, (event.clientY - last.y) / 2);
      if (before > 0 && now > 0) on.zoom(now / before, ...middle);
    } else on.pan(event.clientX - last.x, event.clientY - last.y);
    down.set(event.pointerId, { x: event.clientX, y: event.clientY });
  };
  const released = (event: PointerEvent) => {
    if (!down.delete(event.pointerId)) return;
    if (!down.size) {
      element.classList.remove("ll-moving");
      if (!isMoving && start && event.type === "pointerup") on.tap(...at(event), event);
    }
  };
  const wheel = (event: WheelEvent) => {
    if (!on.wheels(event)) return;
    event.preventDefault();
    corner = null;
    // Lines and pages as pixels; a pinch on a touch pad comes as a wheel with Ctrl, in small steps.
    const step = event.deltaY * (event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1);
    on.zoom(Math.exp(-Math.max(-120, Math.min(120, step)) * (event.ctrlKey ? 0.01 : 0.0022)), ...at(event));
  };
  const leave = () => {
    corner = null;
    on.leave();
  };
  const listeners = { pointerdown: pressed, pointermove: move, pointerup: released, pointercancel: released, pointerleave: leave, wheel };
  for (const [name, listener] of Object.entries(listeners))
    element.addEventListener(name, listener as EventListener, name === "wheel" ? { passive: false } : undefined);
  return () => {
    for (const [name, listener] of Object.entries(listeners)) element.removeEventListener(name, listener as EventListener);
  };
}
