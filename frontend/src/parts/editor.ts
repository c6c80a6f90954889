// A text that is edited: numbered lines, one of which may be marked as wrong, with what is wrong there.

import { div, fill, h } from "./dom";
import { css } from "./styles";

css`
.ll-editor { display: flex; position: relative; border: 1px solid var(--ll-line); border-radius: 5px; overflow: hidden; background: var(--ll-ground); }
.ll-editor:focus-within { outline: 2px solid var(--ll-accent); outline-offset: -2px; }
.ll-editor > pre, .ll-editor > textarea { font: 12px/18px var(--ll-mono); padding: 6px 8px; margin: 0; border: 0; }
.ll-editor > pre { color: var(--ll-faint); text-align: right; background: var(--ll-panel); user-select: none; overflow: hidden; flex: none; }
.ll-editor > textarea { flex: 1 1 0; min-width: 0; resize: none; white-space: pre; overflow: auto hidden; background: none; color: inherit; tab-size: 2; }
.ll-editor > textarea:focus-visible { outline: none; }
.ll-editor .ll-is-wrong { color: var(--ll-bad); font-weight: 700; background: var(--ll-removed-fill); }
.ll-wrong { color: var(--ll-bad); padding: 4px 8px; margin: 0; white-space: pre-wrap; }
`;

export interface Editor {
  readonly element: HTMLElement;
  text: string;
  /** Say what is wrong where, by line and column from 1, and put the caret there. */
  wrong(line: number, column: number, words: string): void;
  focus(): void;
}

/** `submit` is what Ctrl+Enter does. */
export function editor(label: string, submit: () => void): Editor {
  let marked = 0;
  const numbers = h("pre", { "aria-hidden": "true" });
  const said = h("p", { class: "ll-wrong ll-mono", role: "alert", hidden: true });
  const draw = (): void => {
    const lines = field.value.split("\n");
    fill(numbers, lines.map((_, at) => h("div", { class: at + 1 === marked ? "ll-is-wrong" : "" }, at + 1)));
    field.rows = lines.length;
  };
  const clear = (): void => {
    marked = 0;
    said.hidden = true;
    field.removeAttribute("aria-invalid");
  };
  const field = h("textarea", {
    spellcheck: false, autocomplete: "off", "aria-label": label, rows: 1,
    oninput: () => (clear(), draw()),
    onkeydown: (event: KeyboardEvent) => {
      if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      event.stopPropagation();
      submit();
    },
  });
  const element = h("div", null, div("ll-editor", numbers, field), said);
  draw();
  return {
    element,
    get text() {
      return field.value;
    },
    set text(value) {
      field.value = value;
      clear();
      draw();
    },
    wrong: (line, column, words) => {
      marked = line;
      draw();
      field.setAttribute("aria-invalid", "true");
      said.hidden = false;
      fill(said, `line ${line}, column ${column}: ${words}`);
      const lines = field.value.split("\n");
      const at = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0) + column - 1;
      field.focus({ preventScroll: true });
      field.setSelectionRange(at, at + Math.max(0, (lines[line - 1] ?? "").length - column + 1));
    },
    focus: () => field.focus({ preventScroll: true }),
  };
}
