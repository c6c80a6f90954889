// The list of shortcuts, under `?`.

import { button, h } from "../parts/dom";
import { listen, offered } from "../parts/keys";
import { css } from "../parts/styles";

css`
.ll-help { position: absolute; inset: 0; z-index: 20; padding: 20px 12px; overflow: auto; background: color-mix(in srgb, var(--ll-ground) 65%, transparent); }
.ll-help > div { background: var(--ll-ground); border: 1px solid var(--ll-edge); border-radius: 8px; padding: 10px 18px; margin: auto; max-width: 760px; box-shadow: 0 6px 24px rgb(0 0 0 / .25); }
.ll-help > div > .ll-button { float: right; }
.ll-help h3 { font-size: 13px; margin: 8px 0 4px; }
.ll-help dl { margin: 0; columns: 300px; }
.ll-help dl > div { display: flex; gap: 10px; break-inside: avoid; padding: 1px 0; }
.ll-help dt { flex: 0 0 96px; text-align: right; }
.ll-help dd { margin: 0; }
.ll-help kbd { font: 11px var(--ll-mono); border: 1px solid var(--ll-edge); border-bottom-width: 2px; border-radius: 4px; padding: 0 5px; margin-left: 4px; background: var(--ll-panel); color: var(--ll-text); }
`;

const SIGNS: Readonly<Record<string, string>> = { ArrowUp: "↑", ArrowDown: "↓", ArrowLeft: "←", ArrowRight: "→", Escape: "Esc", Backspace: "⌫" };

/** Show over a root the shortcuts that work in it. */
export function help(root: HTMLElement): void {
  const areas = offered(root);
  const before = document.activeElement;
  const close = (): void => {
    shown.remove();
    (before as HTMLElement | null)?.focus();
  };
  const shut = button("Close", "Close the shortcuts", close);
  const shown = h(
    "div",
    {
      class: "ll-help",
      role: "dialog",
      "aria-modal": "true",
      "aria-label": "Shortcuts",
      onclick: (event: MouseEvent) => event.target === shown && close(),
      // There is one thing to go to.
      onkeydown: (event: KeyboardEvent) => event.key === "Tab" && event.preventDefault(),
    },
    h(
      "div",
      null,
      shut,
      areas.map(([where, shortcuts]) => [
        h("h3", null, where),
        h("dl", null, shortcuts.map(([keys, what]) => h("div", null, h("dt", null, keys.split(" ").map((key) => h("kbd", null, SIGNS[key] ?? key))), h("dd", null, what)))),
      ]),
      root.querySelector(".ll-graph") && h("p", { class: "ll-faint" }, "Drag to move the picture, turn the wheel to zoom (in a notebook after a click into it, or with Ctrl), click to select, double-click to open or close a box. Tab goes from part to part."),
    ),
  );
  listen(shown, { escape: close, help: close });
  root.append(shown);
  shut.focus();
}

/** A button, for any bar, that tells what stands around the picture of an event. */
export function tellButton(sign: string, words: string, event: string): HTMLButtonElement {
  return button(sign, words, ({ currentTarget }) => (currentTarget as Element).dispatchEvent(new Event(event, { bubbles: true })));
}

/** The buttons that enlarge the type, and the picture. */
export function sizeButtons(): HTMLButtonElement[] {
  return [tellButton("A", "Large type for a projector, or not (P)", "ll-projector"), tellButton("⤢", "Fill the window, or not (w)", "ll-fill")];
}

/** The button that shows the shortcuts. */
export function helpButton(): HTMLButtonElement {
  return tellButton("?", "Shortcuts (?)", "ll-help");
}
