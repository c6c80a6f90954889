// Where things are: frames, the things and wires in them, and layouts that frames share.

import { damaged, type Texts } from "./columns";

export interface Box {
  readonly name: string;
  readonly path: string;
  readonly nodes: number;
  readonly times: number;
  readonly members: readonly string[];
  /** How many nodes in it changed in the pass that the view is of; left out where none did. */
  readonly added?: number;
  readonly removed?: number;
  readonly rewired?: number;
}

export interface ViewHeader {
  readonly frames: number;
  readonly things: number;
  readonly layouts: number;
  readonly boxes: readonly Box[];
  readonly shown: string;
  readonly open?: readonly string[];
}

/** Whose places things have: those of both graphs of a pass together, or of one of them alone. */
export type Places = "both" | "before" | "after";

/** What a view needs of the run that it shows. */
export interface RowsOfRun {
  readonly index: number;
  /** The id of each row. */
  readonly id: Int32Array;
  rowsOf(id: number): readonly number[];
  string(index: number): string;
  /** What a row is called in a picture. */
  label(row: number): string;
}

/** Marks of a thing. */
export const RETRIEVED = 1, KEPT = 2, RECOMPUTED = 4, UNUSED = 8, LEFT = 16;
/** What became of a thing or wire in a pass. */
export const SAME = 0, ADDED = 1, REMOVED = 2, REWIRED = 3, PASSING = 4;

export class View {
  readonly frames: number;
  readonly things: number;
  readonly boxes: readonly Box[];
  /** What folding hides, in words. */
  readonly shown: string;
  /** The paths of the boxes that are open at first. */
  readonly open: ReadonlySet<string>;
  readonly frame;
  readonly thing;
  readonly wire;
  readonly port;
  readonly layout;
  /** The layout of each frame, by whose places things have. */
  readonly sides: Readonly<Record<Places, Uint32Array>>;
  /** What has no thing of its own: a view by the row that it views, a scalar by the first that reads it. */
  readonly folded: ReadonlyMap<number, number>;
  private readonly stands: ReadonlyMap<number, readonly number[]>;
  private places: Record<"byRow" | "byId", Map<number, number>> | null = null;
  private boxLists: readonly (readonly number[])[] | null = null;
  private readonly insides = new Map<number, Uint32Array>();

  constructor(
    readonly run: RowsOfRun,
    bundle: Texts,
    readonly index: number,
    header: ViewHeader,
  ) {
    const name = `r${run.index}/v${index}/`;
    const u8 = (column: string) => bundle.typed(name + column, "u8");
    const i32 = (column: string) => bundle.typed(name + column, "i32");
    const u32 = (column: string) => bundle.typed(name + column, "u32");
    const f32 = (column: string) => bundle.typed(name + column, "f32");
    this.frames = header.frames;
    this.things = header.things;
    this.boxes = header.boxes;
    this.shown = header.shown;
    this.open = new Set(header.open ?? []);
    this.frame = {
      layout: u32("frame.layout"), things: u32("frame.thing_at"), wires: u32("frame.wire_at"),
      ports: u32("frame.port_at"), box: i32("frame.box"),
    };
    // What is not of a pass has one graph.
    const alone = (side: string) => (bundle.has(`${name}frame.${side}`) ? u32(`frame.${side}`) : this.frame.layout);
    this.sides = { both: this.frame.layout, before: alone("before"), after: alone("after") };
    this.thing = {
      row: i32("thing.row"), old: i32("thing.old"), box: i32("thing.box"), frame: u32("thing.frame"),
      opens: i32("thing.opens"), marks: u8("thing.marks"), status: u8("thing.status"),
    };
    this.wire = {
      source: i32("wire.source"), target: i32("wire.target"), carried: u32("wire.carried"),
      status: u8("wire.status"), label: u32("wire.label"), count: u32("wire.count"),
    };
    this.port = { side: u8("port.side"), row: u32("port.row"), status: u8("port.status") };
    this.layout = {
      size: f32("layout.size"), things: u32("layout.thing_at"), wires: u32("layout.wire_at"),
      ports: u32("layout.port_at"), rect: f32("layout.rect"), port: f32("layout.port"),
      courses: u32("layout.course_at"), course: f32("layout.course"),
    };
    const [rows, into] = [u32("folded.row"), u32("folded.into")];
    const stands = new Map<number, number[]>();
    rows.forEach((row, at) => (stands.get(row) ?? stands.set(row, []).get(row)!).push(into[at]!));
    this.stands = stands;
    this.folded = new Map(Array.from(stands, ([row, all]) => [row, all[0]!]));
    this.check();
  }

  /** Refuse a view whose parts do not fit together, so that nothing below has to ask. */
  private check(): void {
    const { frame, layout, thing } = this;
    const isRising = (at: Uint32Array, count: number, most: number) =>
      at.length === count + 1 && at[0] === 0 && at[count] === most && at.every((n, i) => !i || n >= at[i - 1]!);
    const layouts = layout.size.length / 2;
    const fits =
      this.frames > 0 && thing.row.length === this.things &&
      isRising(frame.things, this.frames, this.things) &&
      isRising(frame.wires, this.frames, this.wire.source.length) &&
      isRising(frame.ports, this.frames, this.port.row.length) &&
      isRising(layout.things, layouts, layout.rect.length / 4) &&
      isRising(layout.wires, layouts, layout.courses.length - 1) &&
      isRising(layout.ports, layouts, layout.port.length) &&
      isRising(layout.courses, layout.courses.length - 1, layout.course.length);
    if (!fits) throw damaged(`the parts of view ${this.index} do not fit together`);
    for (const own of Object.values(this.sides)) this.checkLayouts(own, layouts);
  }

  private checkLayouts(chosen: Uint32Array, layouts: number): void {
    const { frame, layout } = this;
    if (chosen.length !== this.frames) throw damaged(`the parts of view ${this.index} do not fit together`);
    for (let one = 0; one < this.frames; one++) {
      const own = chosen[one]!;
      const same = (of: Uint32Array, at: Uint32Array) =>
        own < layouts && of[one + 1]! - of[one]! === at[own + 1]! - at[own]!;
      if (!same(frame.things, layout.things) || !same(frame.wires, layout.wires) || !same(frame.ports, layout.ports))
        throw damaged(`frame ${one} of view ${this.index} has a layout of another`);
    }
  }

  label(thing: number): string {
    return this.box(thing)?.name ?? this.run.label(this.thing.row[thing]!);
  }

  box(thing: number): Box | undefined {
    return this.boxes[this.thing.box[thing]!];
  }

  /** The thing of a row, whether it is visible or not: folded views have the thing that they are folded into. */
  thingOf(row: number): number {
    const { id } = this.run;
    if (!this.places) {
      const byRow = new Map<number, number>(), byId = new Map<number, number>();
      for (const rows of [this.thing.old, this.thing.row])
        rows.forEach((one, thing) => {
          if (one < 0) return;
          byRow.set(one, thing);
          byId.set(id[one]!, thing);
        });
      // Rows between the one before a pass and the one after have no thing of their own.
      for (const [one, into] of this.folded) {
        const thing = byRow.get(into) ?? byId.get(id[into]!);
        if (thing === undefined) continue;
        byRow.set(one, thing);
        if (!byId.has(id[one]!)) byId.set(id[one]!, thing);
      }
      this.places = { byRow, byId };
    }
    return this.places.byRow.get(row) ?? this.places.byId.get(id[row]!) ?? -1;
  }

  /** All things of a row: a scalar stands in each op that reads it. */
  thingsOf(row: number): readonly number[] {
    const all = this.stands.get(row) ?? [], one = all.length > 1 ? -1 : this.thingOf(row);
    if (all.length < 2) return one < 0 ? [] : [one];
    return [...new Set(all.map((each) => this.thingOf(each)))].filter((thing) => thing >= 0);
  }

  /** The things of a frame that open. */
  boxesIn(frame: number): readonly number[] {
    if (!this.boxLists) {
      const found: number[][] = Array.from({ length: this.frames }, () => []);
      this.thing.opens.forEach((opens, thing) => opens >= 0 && found[this.thing.frame[thing]!]!.push(thing));
      this.boxLists = found;
    }
    return this.boxLists[frame]!;
  }

  /** The things of a frame that a pass changed, and the boxes with such in them. */
  changedIn(frame: number): number[] {
    const found: number[] = [];
    for (let thing = this.frame.things[frame]!; thing < this.frame.things[frame + 1]!; thing++) {
      const box = this.box(thing);
      if (this.thing.status[thing] || box?.added || box?.removed || box?.rewired) found.push(thing);
    }
    return found;
  }

  /** The things that a thing stands in, inner ones first. */
  above(thing: number): number[] {
    const found: number[] = [];
    for (let box = this.boxOf(thing); box >= 0; box = this.boxOf(box)) found.push(box);
    return found;
  }

  /** The thing whose frame a thing stands in; -1 for those outside all. */
  boxOf(thing: number): number {
    return this.frame.box[this.thing.frame[thing]!]!;
  }

  /** The thing of a box, by its path; -1 where this view has none. */
  thingAt(path: string): number {
    const box = this.boxes.findIndex((one) => one.path === path);
    return box < 0 ? -1 : this.thing.box.indexOf(box);
  }

  /** All rows that a thing stands for, with those of a rewired node before; folded views are not among them. */
  rowsIn(thing: number): Uint32Array {
    let found = this.insides.get(thing);
    if (!found) {
      const rows: number[] = [];
      const walk = (one: number) => {
        if (this.thing.row[one]! >= 0) rows.push(this.thing.row[one]!);
        if (this.thing.old[one]! >= 0) rows.push(this.thing.old[one]!);
        const frame = this.thing.opens[one]!;
        if (frame >= 0) for (let at = this.frame.things[frame]!; at < this.frame.things[frame + 1]!; at++) walk(at);
      };
      walk(thing);
      this.insides.set(thing, (found = Uint32Array.from(rows)));
    }
    return found;
  }
}
