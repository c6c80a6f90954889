// @vitest-environment jsdom
// Where one looks from, and the gestures that change it.

import { beforeEach, expect, test, vi } from "vitest";
import { around, beyond, centred, densest, fitted, fromTop, gestures, moved, seen, towards, zoomed, type Gestures } from "../../src/graph/camera";

const screen = { width: 400, height: 300 };

test("zooming leaves the point under the hand where it is", () => {
  const camera = { x: 30, y: -20, scale: 0.5 }, closer = zoomed(camera, 1.7, 120, 90);
  expect((120 - closer.x) / closer.scale).toBeCloseTo((120 - camera.x) / camera.scale, 9);
  expect((90 - closer.y) / closer.scale).toBeCloseTo((90 - camera.y) / camera.scale, 9);
  expect(zoomed(camera, 1e9, 0, 0).scale).toBe(4);
  expect(zoomed(camera, 1e-9, 0, 0).scale).toBe(0.001);
});

test("fitting shows all of it in the middle, never much larger than life", () => {
  const rect = { x: -4, y: -4, width: 1000, height: 200 }, camera = fitted(rect, screen), area = seen(camera, screen);
  expect(area.x).toBeLessThan(rect.x);
  expect(area.x + area.width).toBeGreaterThan(996);
  expect(area.x + area.width / 2).toBeCloseTo(496);
  expect(area.y + area.height / 2).toBeCloseTo(96);
  expect(fitted({ x: 0, y: 0, width: 10, height: 10 }, screen).scale).toBe(1.2);
});

test("what lies over a picture leaves the larger side of it, unless that is too little", () => {
  const picture = { left: 100, right: 700 };
  expect(beyond(picture)).toEqual({ from: 0, to: 600 });
  expect(beyond(picture, { left: 100, right: 400 })).toEqual({ from: 300, to: 600 });
  expect(beyond(picture, { left: 500, right: 700 })).toEqual({ from: 0, to: 400 });
  expect(beyond(picture, { left: 150, right: 650 })).toEqual({ from: 0, to: 600 });
  expect(beyond(picture, { left: 700, right: 900 })).toEqual({ from: 0, to: 600 });
});

test("what is high is read from its top", () => {
  const camera = fromTop({ x: 0, y: 0, width: 800, height: 1e5 }, screen);
  expect(camera.y).toBe(18);
  expect(camera.scale).toBeCloseTo(364 / 800);
});

test("a part is in the middle, or from its upper left corner on; nothing is seen beyond the whole", () => {
  const whole = { x: 0, y: 0, width: 2000, height: 1000 }, at = (x: number, y: number, width = 100, height = 50) => towards({ x, y, width, height }, whole, screen, 1);
  expect(at(900, 500)).toEqual({ scale: 1, x: 200 - 950, y: 150 - 525 });
  expect(at(900, 500, 900)).toEqual({ scale: 1, x: 18 - 900, y: 150 - 525 });
  expect(at(0, 0)).toEqual({ scale: 1, x: 18, y: 18 });
  expect(at(1900, 950)).toEqual({ scale: 1, x: 400 - 18 - 2000, y: 300 - 18 - 1000 });
  expect(towards(whole, whole, screen, 0.1)).toEqual({ scale: 0.1, x: 100, y: 100 });
  expect(around([{ x: 3, y: 4, width: 5, height: 6 }, { x: -1, y: 7, width: 2, height: 9 }])).toEqual({ x: -1, y: 4, width: 9, height: 12 });
});

test("what is seen, and what is around it", () => {
  expect(seen({ x: 10, y: 20, scale: 2 }, screen)).toEqual({ x: -5, y: -10, width: 200, height: 150 });
  expect(seen({ x: 0, y: 0, scale: 2 }, screen, 100)).toEqual({ x: -50, y: -50, width: 300, height: 250 });
  expect(moved({ x: 1, y: 2, scale: 3 }, 10, 20)).toEqual({ x: 11, y: 22, scale: 3 });
  expect(centred({ x: 0, y: 0, width: 100, height: 100 }, screen, 1)).toEqual({ scale: 1, x: 150, y: 100 });
});

let element: HTMLElement, heard: Record<keyof Gestures, ReturnType<typeof vi.fn>>, stop: () => void;

beforeEach(() => {
  stop?.();
  element = document.createElement("div");
  heard = { pan: vi.fn(), zoom: vi.fn(), tap: vi.fn(), point: vi.fn(), leave: vi.fn(), wheels: vi.fn(() => true) };
  stop = gestures(element, heard as unknown as Gestures);
});

function pointer(type: string, x: number, y: number, id = 1, more: PointerEventInit = {}): void {
  element.dispatchEvent(new PointerEvent(type, { pointerId: id, clientX: x, clientY: y, buttons: type === "pointerup" ? 0 : 1, ...more }));
}

test("dragging pans, from a few pixels on", () => {
  pointer("pointerdown", 10, 10);
  pointer("pointermove", 12, 11);
  expect(heard.pan).not.toHaveBeenCalled();
  pointer("pointermove", 30, 15);
  expect(heard.pan).toHaveBeenCalledWith(20, 5);
  expect(element.classList.contains("ll-moving")).toBe(true);
  pointer("pointerup", 30, 15);
  expect(heard.tap).not.toHaveBeenCalled();
  expect(element.classList.contains("ll-moving")).toBe(false);
});

test("pressing at one point is a tap; the other buttons are not ours", () => {
  pointer("pointerdown", 10, 10);
  pointer("pointerup", 11, 10);
  expect(heard.tap).toHaveBeenCalledWith(11, 10, expect.anything());
  pointer("pointerdown", 10, 10, 1, { button: 2 });
  pointer("pointerup", 10, 10);
  expect(heard.tap).toHaveBeenCalledTimes(1);
});

test("two fingers zoom about their middle", () => {
  pointer("pointerdown", 100, 100, 1);
  pointer("pointerdown", 200, 100, 2);
  pointer("pointermove", 300, 100, 2);
  expect(heard.zoom).toHaveBeenCalledWith(2, 200, 100);
  expect(heard.pan).toHaveBeenCalledWith(50, 0);
});

test("the wheel zooms, and a page scrolls on where the wheel is not ours", () => {
  const turned = (deltaY: number) => {
    const event = new WheelEvent("wheel", { deltaY, clientX: 5, clientY: 6, cancelable: true });
    element.dispatchEvent(event);
    return event.defaultPrevented;
  };
  expect(turned(-100)).toBe(true);
  expect(heard.zoom.mock.calls[0]![0]).toBeGreaterThan(1);
  expect(heard.zoom.mock.calls[0]!.slice(1)).toEqual([5, 6]);
  heard.wheels.mockReturnValue(false);
  expect(turned(100)).toBe(false);
  expect(heard.zoom).toHaveBeenCalledTimes(1);
});

test("pointing without pressing", () => {
  pointer("pointermove", 7, 8, 1, { buttons: 0 });
  expect(heard.point).toHaveBeenCalledWith(7, 8);
  element.dispatchEvent(new PointerEvent("pointerleave"));
  expect(heard.leave).toHaveBeenCalled();
});

test("of what changed one sees where there is first half as much as anywhere", () => {
  const screen = { width: 336, height: 236 };
  const at = (y: number, x = 0) => ({ x, y, width: 50, height: 20 });
  const [far, one, two, three] = [at(0), at(500), at(560), at(600)];
  expect(densest([far, one, two, three], screen, 1)).toEqual([one, two, three]);
  expect(densest([far, at(300), at(310)], screen, 1)).toEqual([far]);
  expect(densest([], screen, 1)).toEqual([]);
  // What stands too far aside is not seen together with the rest, and what is higher than the screen alone.
  expect(densest([at(0), at(40, 400), at(80)], screen, 1)).toEqual([at(0), at(80)]);
  expect(densest([{ ...at(0), height: 900 }], screen, 1)).toEqual([{ ...at(0), height: 900 }]);
});
