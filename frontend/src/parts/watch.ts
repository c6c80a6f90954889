// When a pane draws: at once while it is seen, and otherwise as soon as it is.

import type { Bundle } from "../data/bundle";
import type { Selected, Store } from "../data/store";

export interface Drawing {
  /** What a pane is about: another run, stage or firing makes it draw all of itself. */
  readonly level: "run" | "stage" | "firing";
  /** Draw all; `light` follows. */
  draw(): void;
  /** Another selection; `own` where the pane made it itself, and need not scroll to it. */
  light?(own: boolean): void;
}

/** Tell what is in a host that it is seen now. */
export function shown(host: HTMLElement): void {
  host.dispatchEvent(new Event("ll-shown"));
}

export class Watch {
  private readonly stops: (() => void)[];
  private own = false;
  private isStale = false;
  private last: readonly [Bundle | null, string] = [null, ""];

  constructor(
    private readonly store: Store,
    private readonly host: HTMLElement,
    private readonly pane: Drawing,
  ) {
    const seen = (): void => {
      if (!this.isStale) return;
      this.isStale = false;
      this.draw();
      this.pane.light?.(false);
    };
    host.addEventListener("ll-shown", seen);
    this.stops = [
      () => host.removeEventListener("ll-shown", seen),
      store.on("place", () => this.later(() => this.draw() && this.pane.light?.(true))),
      store.on("selection", () => this.later(() => this.pane.light?.(this.own))),
    ];
  }

  /** Draw for the first time. */
  begin(): void {
    this.draw();
    this.pane.light?.(false);
  }

  /** Select something of the pane itself, which does not scroll for it. */
  select(what: Selected | null): void {
    this.own = true;
    this.store.select(what);
    this.own = false;
  }

  dispose(): void {
    for (const stop of this.stops) stop();
  }

  private later(act: () => void): void {
    if (this.host.closest("[hidden]")) this.isStale = true;
    else act();
  }

  private draw(): boolean {
    const { run, stage, firing } = this.store.place;
    const of = { run: `${run}`, stage: `${run} ${stage}`, firing: `${run} ${stage} ${firing}` }[this.pane.level];
    if (this.last[0] === this.store.bundle && this.last[1] === of) return false;
    this.last = [this.store.bundle, of];
    this.pane.draw();
    return true;
  }
}
