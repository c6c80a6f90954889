// Two areas beside or above each other, with a bar between them that moves, and closes either.

import { choose, chosen } from "./choices";
import { div, h } from "./dom";
import { keyed } from "./keys";
import { css } from "./styles";

css`
.ll-split, .ll-area { display: flex; flex: 1 1 0; min-width: 0; min-height: 0; }
.ll-down, .ll-area { flex-direction: column; }
.ll-area { overflow: hidden; }
.ll-between { flex: 0 0 8px; background: var(--ll-panel) radial-gradient(circle 3px, var(--ll-edge) 90%, transparent); border: 0 solid var(--ll-line); border-width: 0 1px; cursor: col-resize; touch-action: none; }
.ll-down > .ll-between { border-width: 1px 0; cursor: row-resize; }
.ll-between:hover { background-color: var(--ll-chosen); }
`;

/** Two areas, and what closes one of them and opens it again. */
export type Split = readonly [first: HTMLElement, second: HTMLElement, fold: () => void];

/** Lay two areas out in a host; `share` is what the first one has at first, in percent, and `folds` the one that closes. */
export function split(host: HTMLElement, way: "across" | "down", between: string, share: number, folds: 0 | 1 = 1): Split {
  const areas = [div("ll-area"), div("ll-area")] as const;
  let now = share;
  let open = share; // as it was before it was closed
  const bar = h("div", { class: "ll-between", role: "separator", tabindex: 0, "aria-label": `between ${between}`, "aria-orientation": way === "across" ? "vertical" : "horizontal", title: "drag, or arrow keys; Enter or a double click closes and opens" });
  const area = div(`ll-split ll-${way}`, areas[0], bar, areas[1]);
  const put = (value: number): void => {
    now = Math.max(0, Math.min(100, value));
    if (now > 0 && now < 100) open = now;
    areas.forEach((one, at) => {
      const own = at ? 100 - now : now;
      one.style.flex = `${own} 1 0`;
      // What is closed is not to be reached by the keyboard.
      one.style.visibility = own ? "" : "hidden";
    });
    bar.setAttribute("aria-valuenow", String(Math.round(now)));
  };
  /** What a person has set is kept; what was there at first is not. */
  const moved = (value: number): void => (put(value), choose(between, String(now)));
  const toggle = (): void => moved(now > 0 && now < 100 ? 100 * folds : open);
  bar.addEventListener("dblclick", toggle);
  keyed(bar, ({ key }) => {
    const step = { ArrowLeft: -3, ArrowUp: -3, ArrowRight: 3, ArrowDown: 3, Home: -100, End: 100 }[key];
    if (step) moved(now + step);
    else if (key === "Enter") toggle();
    return !!step || key === "Enter";
  });
  bar.addEventListener("pointerdown", (event) => bar.setPointerCapture(event.pointerId));
  bar.addEventListener("pointermove", (event) => {
    if (!bar.hasPointerCapture(event.pointerId)) return;
    const box = area.getBoundingClientRect();
    const to = 100 * (way === "across" ? (event.clientX - box.left) / box.width : (event.clientY - box.top) / box.height);
    moved(to < 4 ? 0 : to > 96 ? 100 : to); // near an end it snaps shut
  });
  put(Number(chosen(between, String(share))) || 0);
  host.append(area);
  return [...areas, toggle];
}
