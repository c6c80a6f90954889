// @vitest-environment jsdom
// Keys: those that are used go no further, and all others do.

import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { h } from "../../src/parts/dom";
import { alone, listen, SHORTCUTS } from "../../src/parts/keys";

let host: HTMLElement, outside: ReturnType<typeof vi.fn>;

beforeEach(() => {
  host = h("div", { tabindex: 0 });
  document.body.append(host);
  outside = vi.fn();
  document.body.addEventListener("keydown", outside as never);
});
afterEach(() => {
  document.body.removeEventListener("keydown", outside as never);
  host.remove();
});

function press(key: string, more: KeyboardEventInit = {}, at: Element = host): KeyboardEvent {
  const event = new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...more });
  at.dispatchEvent(event);
  return event;
}

test("a key that is used goes no further", () => {
  const fit = vi.fn();
  listen(host, { fit });
  expect(press("f").defaultPrevented).toBe(true);
  expect(fit).toHaveBeenCalledOnce();
  expect(outside).not.toHaveBeenCalled();
});

test("other keys, and those with Ctrl, Cmd or Alt, are left alone", () => {
  const fit = vi.fn();
  listen(host, { fit });
  for (const event of [press("x"), press("f", { ctrlKey: true }), press("f", { metaKey: true }), press("f", { altKey: true })]) expect(event.defaultPrevented).toBe(false);
  expect(fit).not.toHaveBeenCalled();
  expect(outside).toHaveBeenCalledTimes(4);
});

test("a handler that returns false has not used its key", () => {
  listen(host, { escape: () => false });
  expect(press("Escape").defaultPrevented).toBe(false);
  expect(outside).toHaveBeenCalledOnce();
});

test("what is typed into a field is text, but Escape is heard", () => {
  const heard = vi.fn(), field = h("input", { type: "search" }), box = h("input", { type: "checkbox" }), act = h("button");
  host.append(field, box, act);
  listen(host, { fit: heard, escape: heard, toggle: heard });
  press("f", {}, field);
  press(" ", {}, box);
  press("Enter", {}, act);
  expect(heard).not.toHaveBeenCalled();
  press("Escape", {}, field);
  press("f", {}, box);
  expect(heard).toHaveBeenCalledTimes(2);
});

test("listening ends", () => {
  const fit = vi.fn();
  listen(host, { fit })();
  press("f");
  expect(fit).not.toHaveBeenCalled();
});

test("no key means two things at one place", () => {
  const seen = new Map<string, string>();
  for (const [where, shortcuts] of Object.entries(SHORTCUTS))
    for (const [key, what] of Object.values<readonly [string, string]>(shortcuts).flatMap(([keys, what]) => keys.split(" ").map((key) => [key, what] as const)))
      for (const area of where === "Everywhere" ? ["Picture", "Passes and firings"] : [where]) {
        expect(seen.get(`${area} ${key}`), `${area} ${key}`).toBeUndefined();
        seen.set(`${area} ${key}`, what);
      }
});

test("JupyterLab's shortcuts are kept away, but not those with Ctrl", () => {
  vi.useFakeTimers();
  alone(host);
  const inner = h("button"), field = h("input");
  host.append(inner, field);
  const marked = (): boolean[] => [host, inner].map((one) => one.hasAttribute("data-lm-suppress-shortcuts"));
  // What has the focus is asked before what is around it.
  inner.focus();
  expect(marked()).toEqual([true, true]);
  for (const key of ["d", "Enter", "Escape"]) press(key, {}, inner);
  press("Enter", { shiftKey: true }, inner);
  press("z", { ctrlKey: true }, field);
  expect(outside).not.toHaveBeenCalled();
  let during = [true];
  document.body.addEventListener("keydown", () => (during = marked()), { once: true });
  press("s", { ctrlKey: true }, inner);
  expect(during).toEqual([false, false]);
  expect(outside).toHaveBeenCalledOnce();
  vi.runAllTimers();
  expect(marked()).toEqual([true, true]);
  vi.useRealTimers();
});
