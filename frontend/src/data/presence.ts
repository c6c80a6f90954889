// What of a view is there at one place: things by their ids, wires by what their readers read then.

import type { Alive, Run } from "./model";
import type { Place, Side } from "./store";
import { ADDED, LEFT, PASSING, REMOVED, REWIRED, SAME, UNUSED, type View } from "./view";

/** What of a box is there. */
export interface InBox {
  readonly nodes: number;
  readonly added: number;
  readonly removed: number;
  readonly rewired: number;
  /** Whether each of several equal boxes has so much. */
  readonly isEach: boolean;
}

const NUMBERS = ["nodes", "added", "removed", "rewired"] as const;

export class Presence {
  readonly view: View;
  /** Whether the view was made for this very stage, so that what it says of changes is about it. */
  readonly isOwn: boolean;
  private readonly alive: Alive;
  /** Between two firings: what was there before the first of them, and what is there now. */
  private readonly between: { readonly before: Alive; readonly now: Alive } | null;
  private readonly hidden: readonly number[];
  private readonly rows: Int32Array;
  private readonly boxes = new Map<number, InBox>();

  constructor(
    readonly run: Run,
    place: Place,
    readonly side: Side,
  ) {
    const { stage, firing } = place;
    this.view = run.viewOf(stage);
    this.isOwn = run.stages[stage]!.effect;
    const count = this.isOwn ? run.stages[stage]!.firings : 0;
    const isStart = side === "before" || (firing === 0 && this.isOwn && side !== "both");
    const isEnd = firing < 0 || firing >= count;
    const now = run.alive(stage, this.isOwn && isStart ? 0 : firing);
    this.alive = side === "both" && this.isOwn ? now.or(run.alive(stage, 0)) : now;
    this.between = this.isOwn && !isEnd ? { before: run.alive(stage, 0), now: run.alive(stage, firing) } : null;
    // At both ends of a pass the status of a wire says it all; between, the readers do.
    this.hidden = side === "both" ? (isEnd ? [PASSING] : []) : isStart && this.isOwn ? [ADDED, PASSING] : isEnd ? [REMOVED, PASSING] : [];
    this.rows = new Int32Array(this.view.things).fill(-2);
  }

  /** The row that a thing is now; -1 for a box that has something in it, -2 where nothing is there. */
  private found(thing: number): number {
    const { view, run, alive } = this;
    const row = view.thing.row[thing]!, old = view.thing.old[thing]!;
    if (row >= 0) {
      if (alive.has(row)) return row;
      if (old >= 0 && alive.has(old)) return old;
      const rows = run.rowsOf(run.id[row]!);
      return rows.length > 1 ? (rows.find((one) => alive.has(one) && view.thingOf(one) === thing) ?? -3) : -3;
    }
    const frame = view.thing.opens[thing]!;
    if (frame >= 0)
      for (let inner = view.frame.things[frame]!; inner < view.frame.things[frame + 1]!; inner++) if (this.has(inner)) return -1;
    return -3;
  }

  /** The row that a node's thing is now; -1 for boxes and for what is not there. */
  row(thing: number): number {
    let known = this.rows[thing]!;
    if (known === -2) this.rows[thing] = known = this.found(thing);
    return known < 0 ? -1 : known;
  }

  has(thing: number): boolean {
    return this.row(thing) >= 0 || this.rows[thing] === -1;
  }

  /** Whether no result uses it: anywhere, or after a pass that has left it so. */
  isUnused(thing: number): boolean {
    const marks = this.view.thing.marks[thing]!;
    const isAfter = !this.isOwn || (this.side !== "before" && !this.between);
    return (marks & (isAfter ? UNUSED | LEFT : UNUSED)) > 0 && this.status(thing) !== REMOVED;
  }

  /** The row of an id, or -1. */
  rowOf(id: number): number {
    return this.alive.row(id);
  }

  isThere(row: number): boolean {
    return this.alive.has(row);
  }

  /** What became of a thing, if that is what this place is about. */
  status(thing: number): number {
    const { view, run, between } = this;
    if (!this.isOwn) return SAME;
    const status = view.thing.status[thing]!, row = view.thing.row[thing]!;
    if (!between || row < 0) return status;
    // What only a later firing changes is still as it was; most things no firing changes.
    if (between.before.has(row) && between.now.has(row)) return SAME;
    const id = run.id[row]!, was = between.before.row(id), is = between.now.row(id);
    if (was < 0) return status;
    if (is < 0) return REMOVED;
    return was === is || (status === SAME && is === row) ? SAME : REWIRED;
  }

  wireStatus(wire: number, frame: number): number {
    const { view, run, between } = this;
    if (!this.isOwn) return SAME;
    const status = view.wire.status[wire]!;
    if (!between || status !== REMOVED) return status;
    const carried = run.id[view.wire.carried[wire]!]!, target = view.wire.target[wire]!;
    if (between.now.row(carried) < 0) return REMOVED;
    const row = target < 0 ? -1 : view.thing.row[view.frame.things[frame]! + target]!;
    const reader = row < 0 ? -1 : between.now.row(run.id[row]!);
    return row < 0 || (reader >= 0 && this.reads(reader, carried, between.now)) ? SAME : REMOVED;
  }

  /** Whether a wire of a frame is there. */
  hasWire(wire: number, frame: number): boolean {
    const { view, run } = this, first = view.frame.things[frame]!;
    const source = view.wire.source[wire]!, target = view.wire.target[wire]!;
    if (this.hidden.includes(view.wire.status[wire]!)) return false;
    if (source >= 0 ? !this.has(first + source) : this.alive.row(run.id[view.wire.carried[wire]!]!) < 0) return false;
    if (target < 0) return this.alive.row(run.id[view.wire.carried[wire]!]!) >= 0;
    if (!this.has(first + target)) return false;
    const reader = this.row(first + target);
    return reader < 0 || this.side === "both" || this.reads(reader, run.id[view.wire.carried[wire]!]!);
  }

  /** Whether a row reads an id, itself or through views that are folded into it. */
  private reads(reader: number, id: number, alive = this.alive): boolean {
    const { run, view } = this;
    return run.sources(reader).some((source) => {
      if (source === id) return true;
      const row = alive.row(source);
      const into = row < 0 ? undefined : view.folded.get(row);
      return into !== undefined && run.id[into] === id;
    });
  }

  /** How many nodes are there, and how many of these are folded views and scalars; a node that is rewired is one. */
  get counts(): { readonly all: number; readonly folded: number; readonly scalars: number } {
    const all = new Set<number>(), folded = new Set<number>(), scalars = new Set<number>();
    this.run.id.forEach((id, row) => {
      if (!this.alive.has(row)) return;
      all.add(id);
      if (this.view.folded.has(row)) (this.run.kind(row) === "constant" ? scalars : folded).add(id);
    });
    return { all: all.size, folded: folded.size, scalars: scalars.size };
  }

  /** How much of a box is there, and what of it a pass changed; of equal boxes in each, while they are equal. */
  inBox(thing: number): InBox {
    let known = this.boxes.get(thing);
    if (!known) this.boxes.set(thing, (known = this.counted(thing)));
    return known;
  }

  private counted(thing: number): InBox {
    const { view } = this, frame = view.thing.opens[thing]!;
    const sum = { nodes: 0, added: 0, removed: 0, rewired: 0, isEach: false }, parts: InBox[] = [];
    for (let inner = view.frame.things[frame]!; inner < view.frame.things[frame + 1]!; inner++) {
      if (view.thing.opens[inner]! >= 0) parts.push(this.inBox(inner));
      else if (this.has(inner)) {
        const status = this.status(inner);
        sum.nodes++;
        if (status === ADDED) sum.added++;
        else if (status === REMOVED) sum.removed++;
        else if (status === REWIRED || status === PASSING) sum.rewired++;
      }
    }
    const [first] = parts;
    if (first && (view.box(thing)?.times ?? 1) > 1 && parts.every((one) => NUMBERS.every((name) => one[name] === first[name]))) return { ...first, isEach: true };
    for (const one of parts) {
      const times = one.isEach ? this.timesIn(frame, parts.indexOf(one)) : 1;
      for (const name of NUMBERS) sum[name] += times * one[name];
    }
    return sum;
  }

  /** For how many equal ones a box of a frame stands. */
  private timesIn(frame: number, place: number): number {
    return this.view.box(this.view.boxesIn(frame)[place]!)?.times ?? 1;
  }
}
