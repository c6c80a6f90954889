// A pane that is a list: its rows stand for what can be selected, and light up with their relatives.

import type { Child } from "./dom";
import { Rows } from "./rows";
import type { Pane, Selected, Store } from "../data/store";
import { Watch, type Drawing } from "./watch";

export interface ListingOptions extends Pick<Drawing, "level"> {
  readonly label: string;
  readonly height?: number;
  readonly class?: string;
  /** Get ready to draw; says how many rows there are, and the most characters of one that may be cut off. */
  draw(): readonly [count: number, widest?: number];
  row(at: number): Child;
  /** More classes of a row. */
  look?(at: number): string;
  /** What a row stands for. */
  what(at: number): Selected | null;
  /** Whether a row is related to what is selected. */
  isLit(at: number): boolean;
  /** Whether arrow keys act, too. */
  readonly follow?: boolean;
  /** Does something else than to select; says whether it did. */
  act?(at: number): boolean;
  /** Light what is beside the list; says whether it scrolled to it. */
  light?(own: boolean): boolean | void;
}

export interface Listing extends Pane {
  readonly rows: Rows;
  readonly watch: Watch;
  /** Draw anew what `draw` says now. */
  show(): void;
}

/** Make a list; the caller puts `rows.element` into the page, and then begins. */
export function listing(store: Store, host: HTMLElement, options: ListingOptions): Listing {
  let count = 0;
  const isLit = (at: number): boolean => !!store.selected && options.isLit(at);
  const rows = new Rows({
    label: options.label,
    height: options.height ?? 20,
    class: options.class ?? "ll-mono",
    follow: options.follow === true,
    draw: options.row,
    look: (at) => (options.look?.(at) ?? "") + (isLit(at) ? " ll-lit" : ""),
    act: (at) => {
      if (options.act?.(at)) return;
      const what = options.what(at);
      if (what) watch.select(what);
    },
    hover: (at) => store.hover(at === null ? null : options.what(at)),
  });
  const show = (): void => {
    const [many, widest] = options.draw();
    count = many;
    rows.element.hidden = !many;
    rows.show(many, widest);
  };
  const watch = new Watch(store, host, {
    level: options.level,
    draw: show,
    light: (own) => {
      rows.light();
      if (options.light?.(own) || own || !store.selected) return;
      for (let at = 0; at < count; at++) if (isLit(at)) return rows.reveal(at);
    },
  });
  return { rows, watch, show, dispose: () => (watch.dispose(), rows.dispose()) };
}
