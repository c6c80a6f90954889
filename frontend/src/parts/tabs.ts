// Tabs: a row of names, of which one is open; what is in them is made when it is first seen.

import { div, h } from "./dom";
import { keyed } from "./keys";
import type { Pane } from "../data/store";
import { css } from "./styles";
import { shown } from "./watch";

css`
.ll-tabs { display: flex; flex-direction: column; min-height: 0; height: 100%; }
.ll-tablist { display: flex; flex-wrap: wrap; background: var(--ll-panel); }
.ll-tab { font: inherit; color: inherit; background: none; border: 0; border-bottom: 2px solid transparent; padding: 5px 7px; margin: 0; cursor: pointer; }
.ll-tab:hover { background: var(--ll-hover); }
.ll-tab[aria-selected="true"] { border-bottom-color: var(--ll-accent); font-weight: 600; background: var(--ll-ground); }
.ll-panel { flex: 1 1 0; min-height: 0; display: flex; flex-direction: column; overflow: auto; border-top: 1px solid var(--ll-line); }
`;

export interface TabList {
  readonly element: HTMLElement;
  readonly heads: readonly HTMLButtonElement[];
  /** Show which one is open. */
  mark(name: string): void;
}

let made = 0;

/** The names alone; arrow keys go from one to the next. */
export function tabList(label: string, names: readonly string[], open: (name: string) => void): TabList {
  const id = `ll-tabs-${made++}`;
  const heads = names.map((name) => h("button", { type: "button", role: "tab", class: "ll-tab", id: `${id}-${name.replace(/\W+/g, "-")}`, onclick: () => open(name) }, name));
  const element = h("div", { class: "ll-tablist", role: "tablist", "aria-label": label }, heads);
  keyed(element, ({ key }) => {
    const at = heads.findIndex((head) => head.tabIndex === 0);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: -1 }[key];
    if (to === undefined) return false;
    const next = (to + names.length) % names.length;
    open(names[next]!);
    heads[next]!.focus();
    return true;
  });
  const mark = (name: string): void =>
    heads.forEach((head, at) => {
      const isOpen = names[at] === name;
      head.setAttribute("aria-selected", String(isOpen));
      head.tabIndex = isOpen ? 0 : -1;
    });
  return { element, heads, mark };
}

export interface Tabs extends Pane {
  /** Open one, if it is there. */
  open(name: string): void;
}

/** Draw tabs into a host, each with what it makes; `opened` hears which one is open. */
export function tabs(host: HTMLElement, label: string, list: Readonly<Record<string, (host: HTMLElement) => Pane>>, first: string, opened: (name: string) => void): Tabs {
  const names = Object.keys(list);
  const panes = new Map<string, Pane>();
  const open = (name: string): void => {
    heads.mark(name);
    names.forEach((one, at) => (panels[at]!.hidden = one !== name));
    const panel = panels[names.indexOf(name)]!;
    if (panes.has(name)) shown(panel);
    else panes.set(name, list[name]!(panel));
    opened(name);
  };
  const heads = tabList(label, names, open);
  const panels = heads.heads.map((head) => h("div", { role: "tabpanel", class: "ll-panel", id: `${head.id}-in`, "aria-labelledby": head.id }));
  heads.heads.forEach((head, at) => head.setAttribute("aria-controls", panels[at]!.id));
  host.append(div("ll-tabs", heads.element, panels));
  open(names.includes(first) ? first : names[0]!);
  return { open: (name) => names.includes(name) && open(name), dispose: () => panes.forEach((pane) => pane.dispose()) };
}
