// What the colours of an overlay mean, in words.

import { button, h } from "../parts/dom";
import type { Overlay } from "../data/store";
import { css } from "../parts/styles";

css`
.ll-legend { flex-wrap: nowrap; font-size: 12px; gap: 4px 14px; background: var(--ll-ground); }
.ll-legend ul { display: flex; flex-wrap: wrap; gap: 3px 14px; list-style: none; margin: 0; padding: 0; }
.ll-legend li { display: inline-flex; align-items: center; gap: 5px; }
/* Where there is little room the words get a line of their own. */
@container (max-width: 560px) { .ll-legend { flex-wrap: wrap; } .ll-legend > strong { flex: 1 1 0; } .ll-legend > ul { order: 1; flex: 1 0 100%; } }
.ll-swatch { width: 14px; height: 12px; border: 1px solid var(--ll-edge); border-radius: 2px; flex: none; }
.ll-amount { width: 34px; background: linear-gradient(var(--ll-heat), var(--ll-heat)) no-repeat left / 100% 100%; }
`;

/** A line below the tools, with a button that takes the colours away. */
export function legend(overlay: Overlay, close: () => void): HTMLElement {
  return h(
    "div",
    { class: "ll-bar ll-legend", role: "group", "aria-label": "Legend" },
    h("strong", null, overlay.name),
    h(
      "ul",
      { class: "ll-grow" },
      overlay.legend.map(({ heat, tint, text, count }) =>
        h(
          "li",
          null,
          heat !== null && h("span", { class: "ll-swatch ll-amount", style: `background-size:${Math.round(heat * 100)}% 100%` }),
          tint ? h("span", { class: "ll-swatch", style: `background:${tint}` }) : null,
          text,
          count !== undefined && h("span", { class: "ll-faint" }, `×${count.toLocaleString("en")}`),
        ),
      ),
    ),
    button("×", "Take the colours away (Esc)", close),
  );
}
