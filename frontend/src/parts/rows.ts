// A list of many lines, of which only those in sight are elements.

import { fill, h, set, type Child } from "./dom";
import { keyed, offer } from "./keys";
import { css, typeScale } from "./styles";

css`
.ll-rows { position: relative; overflow: auto; min-height: 0; flex: 1 1 auto; contain: strict; background: var(--ll-ground); }
.ll-root:focus-within .ll-rows { overscroll-behavior: contain; }
.ll-rows > div { position: relative; min-width: 100%; }
.ll-row { position: absolute; left: 0; min-width: 100%; display: flex; align-items: center; padding: 0 8px; white-space: pre; border-left: 3px solid transparent; }
.ll-row:hover { background: var(--ll-hover); }
.ll-row.ll-lit { background: var(--ll-chosen); border-left-color: var(--ll-accent); }
.ll-rows:focus-visible .ll-row.ll-here { outline: 2px solid var(--ll-accent); outline-offset: -2px; }
`;

export interface RowsOptions {
  readonly label: string;
  /** The height of every row, in pixels. */
  readonly height?: number;
  /** More classes of the list. */
  readonly class?: string;
  /** What a row holds. */
  draw(at: number): Child;
  /** The classes of a row; `ll-lit` lights it. */
  look?(at: number): string;
  /** What a click or Enter does; with `follow` arrow keys do it too. */
  act?(at: number): void;
  hover?(at: number | null): void;
  readonly follow?: boolean;
  /** A row of heads that stays above: the list is a table then. */
  readonly head?: HTMLElement;
}

let lists = 0;
/** What a list is taken to be high, where nothing is laid out. */
const UNKNOWN = 400;
const AROUND = 8;

export class Rows {
  readonly element: HTMLElement;
  current = 0;
  private readonly inner: HTMLElement;
  private readonly shown = new Map<number, HTMLElement>();
  private height: number;
  private readonly name = `ll-rows-${lists++}`;
  private count = 0;
  private over: number | null = null;
  private seen: ResizeObserver | null = null;

  constructor(private readonly options: RowsOptions) {
    this.height = options.height ?? 20;
    this.inner = h("div", { role: options.head ? "rowgroup" : "presentation" });
    this.element = h(
      "div",
      {
        class: `ll-rows ${options.class ?? ""}`,
        role: options.head ? "grid" : "listbox",
        tabindex: 0,
        "aria-label": options.label,
        onscroll: () => this.draw(),
        onclick: (event: MouseEvent) => this.clicked(this.under(event)),
        onpointermove: (event: PointerEvent) => this.hover(this.under(event)),
        onpointerleave: () => this.hover(null),
      },
      options.head,
      this.inner,
    );
    keyed(this.element, (event) => this.key(event));
    offer(this.element, ["next", "previous", "choose"]);
    if (typeof ResizeObserver !== "undefined") {
      this.seen = new ResizeObserver(() => this.draw());
      this.seen.observe(this.element);
    }
  }

  dispose(): void {
    this.seen?.disconnect();
  }

  /** Show another content; `widest` is the most characters of a line, where lines may be cut off. */
  show(count: number, widest = 0): void {
    this.count = count;
    this.height = (this.options.height ?? 20) * typeScale(this.element);
    if (this.options.head) set(this.element, { "aria-rowcount": count + 1 });
    this.current = Math.max(0, Math.min(this.current, count - 1));
    this.inner.style.height = `${count * this.height}px`;
    this.inner.style.width = widest ? `calc(${widest}ch + 24px)` : "";
    this.refresh();
  }

  /** Draw the rows in sight anew. */
  refresh(): void {
    this.shown.clear();
    this.inner.replaceChildren();
    this.draw();
  }

  /** Scroll so that a row is in sight, and make it the one that keys start from. */
  reveal(at: number): void {
    if (at < 0 || at >= this.count) return;
    this.current = at;
    const box = this.element;
    const high = (box.clientHeight || UNKNOWN) - (this.options.head?.offsetHeight ?? 0);
    const top = at * this.height;
    if (top < box.scrollTop || top + this.height > box.scrollTop + high) box.scrollTop = Math.max(0, top - high / 3);
    this.draw();
  }

  private draw(): void {
    const { scrollTop, clientHeight } = this.element;
    const first = Math.max(0, Math.floor(scrollTop / this.height) - AROUND);
    const last = Math.min(this.count, Math.ceil((scrollTop + (clientHeight || UNKNOWN)) / this.height) + AROUND);
    for (const [at, element] of this.shown)
      if (at < first || at >= last) {
        element.remove();
        this.shown.delete(at);
      }
    const fresh: HTMLElement[] = [];
    for (let at = first; at < last; at++) {
      if (this.shown.has(at)) continue;
      const element = fill(
        h("div", {
          id: `${this.name}-${at}`,
          "data-at": at,
          ...(this.options.head ? { role: "row", "aria-rowindex": at + 2 } : { role: "option", "aria-setsize": this.count, "aria-posinset": at + 1 }),
          style: `top:${at * this.height}px;height:${this.height}px`,
        }),
        this.options.draw(at),
      );
      this.shown.set(at, element);
      fresh.push(element);
    }
    this.inner.append(...fresh);
    for (const [at, element] of this.shown) {
      const look = this.options.look?.(at) ?? "";
      element.className = `ll-row ${look}${at === this.current ? " ll-here" : ""}`;
      element.setAttribute("aria-selected", String(look.includes("ll-lit")));
    }
    const at = this.shown.get(this.current);
    set(this.element, { "aria-activedescendant": at ? at.id : null });
  }

  /** Light other rows, without making them anew. */
  light(): void {
    this.draw();
  }

  private under(event: Event): number | null {
    const row = event.target instanceof Element ? event.target.closest<HTMLElement>(".ll-row") : null;
    return row ? Number(row.dataset["at"]) : null;
  }

  /** Do what a click on a row does. */
  act(at: number): void {
    this.current = at;
    this.options.act?.(at);
    this.draw();
  }

  private clicked(at: number | null): void {
    // Text that somebody marks to copy it is not a click.
    if (at !== null && !String(getSelection() ?? "")) this.act(at);
  }

  private hover(at: number | null): void {
    if (at === this.over) return;
    this.over = at;
    this.options.hover?.(at);
  }

  private key({ key, target }: KeyboardEvent): boolean {
    const page = Math.max(1, Math.floor((this.element.clientHeight || UNKNOWN) / this.height) - 1);
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -this.count, End: this.count }[key];
    const isChoice = key === "Enter" || key === " ";
    if (target !== this.element || !this.count || (!step && !isChoice)) return false;
    if (step) this.reveal(Math.max(0, Math.min(this.count - 1, this.current + step)));
    if (isChoice || this.options.follow) this.act(this.current);
    return true;
  }
}
