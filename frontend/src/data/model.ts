// A run: the rows of its nodes, its stages, and quick answers about them.

import { damaged, type Texts } from "./columns";
import { wholeFacts, type Facts } from "./facts";
import { View, type ViewHeader } from "./view";

export type * from "./facts";
export { View, type Box } from "./view";

export interface Origin {
  /** "cell 3", or a file's name. */
  readonly file: string;
  readonly line: number;
  readonly code: string;
}

export interface Refusal {
  readonly rule: string;
  readonly node: number;
  readonly because: string;
  readonly needs: readonly string[];
}

export interface Stage {
  /** The pass as a pipeline spells it. */
  readonly title: string;
  readonly name: string;
  readonly seconds: number;
  readonly verified: boolean;
  readonly checked: boolean;
  readonly round: number;
  readonly before: number;
  readonly after: number;
  readonly effect: boolean;
  readonly firings: number;
  readonly counts: Readonly<Record<string, number>>;
  readonly refusals: readonly Refusal[];
  readonly view: number;
  readonly outputs: readonly number[];
  readonly inputs: readonly number[];
}

export interface RunHeader {
  readonly title: string;
  readonly pipeline: string;
  /** The stage at which one begins, as Python has it: in a workbench the one that says most. */
  readonly first: number;
  readonly origins: readonly Origin[];
  readonly kinds: readonly string[];
  readonly stages: readonly Stage[];
  /** Null for views that come later. */
  readonly views: readonly (ViewHeader | null)[];
  readonly facts: Partial<Facts>;
}

/** One place where lines go and come; `place` is a line of the text before. */
export interface Splice {
  readonly place: number;
  readonly gone: Uint32Array;
  readonly fresh: Uint32Array;
}

export interface Links {
  readonly forward: ReadonlyMap<number, readonly number[]>;
  readonly back: ReadonlyMap<number, readonly number[]>;
}

/** Something that happened to a node. */
export interface Happened {
  readonly stage: number;
  /** The firing of the stage; -1 for the graph as written. */
  readonly firing: number;
  readonly what: "written" | "made" | "rewired" | "taken out";
  readonly rule: string;
  readonly because: string;
  /** The row that it then was; of what was taken out the last. */
  readonly row: number;
  /** The ids that the firing took out, and those that it put in. */
  readonly from: readonly number[];
  readonly into: readonly number[];
}

/** The rows that are there at one place. */
export class Alive {
  constructor(
    private readonly run: Run,
    private readonly flags: Uint8Array,
  ) {}

  has(row: number): boolean {
    return this.flags[row] === 1;
  }

  /** The row of an id, or -1. */
  row(id: number): number {
    for (const row of this.run.rowsOf(id)) if (this.flags[row]) return row;
    return -1;
  }

  get size(): number {
    return this.flags.reduce((sum, one) => sum + one, 0);
  }

  /** What of these is there with some firings done. */
  after(gone: Iterable<number>, fresh: Iterable<number>): Alive {
    const flags = this.flags.slice();
    for (const row of gone) flags[row] = 0;
    for (const row of fresh) flags[row] = 1;
    return new Alive(this.run, flags);
  }

  or(other: Alive): Alive {
    return new Alive(this.run, this.flags.map((one, row) => one | other.flags[row]!));
  }
}

/** The firings of one stage. */
export class Firings {
  private touches: Map<number, number[]> | null = null;

  constructor(
    private readonly run: Run,
    readonly count: number,
    private readonly rules: Uint32Array,
    private readonly reasons: Uint32Array,
    private readonly goneAt: Uint32Array,
    private readonly freshAt: Uint32Array,
    private readonly goneRows: Uint32Array,
    private readonly freshRows: Uint32Array,
  ) {}

  rule(firing: number): string {
    return this.run.string(this.rules[firing]!);
  }

  because(firing: number): string {
    return this.run.string(this.reasons[firing]!);
  }

  /** The rows that a firing takes out. */
  gone(firing: number): Uint32Array {
    return this.goneRows.subarray(this.goneAt[firing], this.goneAt[firing + 1]);
  }

  /** The rows that a firing puts in; a reader that reads another node now is in both. */
  fresh(firing: number): Uint32Array {
    return this.freshRows.subarray(this.freshAt[firing], this.freshAt[firing + 1]);
  }

  /** The firings that made, took out or rewired a node. */
  touching(id: number): readonly number[] {
    if (!this.touches) {
      this.touches = new Map();
      for (let firing = 0; firing < this.count; firing++)
        for (const rows of [this.gone(firing), this.fresh(firing)])
          for (const row of rows) {
            const id = this.run.id[row]!;
            const known = this.touches.get(id);
            if (!known) this.touches.set(id, [firing]);
            else if (known[known.length - 1] !== firing) known.push(firing);
          }
    }
    return this.touches.get(id) ?? NONE;
  }
}

const NONE: readonly number[] = [];
const KEPT_PLACES = 12;

/** One graph, or one compile of it. */
export class Run {
  readonly title: string;
  readonly pipeline: string;
  /** The stage at which one begins; the last where none is said. */
  readonly first: number;
  readonly origins: readonly Origin[];
  readonly kinds: readonly string[];
  readonly stages: readonly Stage[];
  readonly facts: Facts;
  readonly rows: number;
  /** Of each row. */
  readonly id: Int32Array;
  readonly kindOf: Uint8Array;
  /** Where it was written, into `origins`; -1 where that is not known. */
  readonly origin: Int32Array;
  /** NaN where a symbol is open. */
  readonly flops: Float64Array;
  readonly bytes: Float64Array;
  private readonly texts = new Map<string, Uint32Array>();
  private readonly sourceAt: Uint32Array;
  private readonly source: Int32Array;
  private readonly byId = new Map<number, number[]>();
  private readonly kept = new Map<string, Alive>();
  private readonly lists: Uint32Array[] = [];
  private readonly fired: Firings[] = [];
  private readonly linked: Links[] = [];
  private readonly seen: View[] = [];
  private reading: Map<number, number[]> | null = null;
  private written: Map<number, number[]> | null = null;

  constructor(
    readonly bundle: Texts,
    readonly index: number,
    private readonly header: RunHeader,
  ) {
    this.title = header.title;
    this.pipeline = header.pipeline;
    this.origins = header.origins;
    this.kinds = header.kinds;
    this.stages = header.stages;
    this.first = Number.isInteger(header.first) && this.stages?.[header.first] ? header.first : (this.stages?.length ?? 0) - 1;
    this.facts = wholeFacts(header.facts ?? {});
    const name = `r${index}/`;
    this.id = bundle.typed(`${name}node.id`, "i32");
    this.rows = this.id.length;
    this.kindOf = bundle.typed(`${name}node.kind`, "u8");
    this.origin = bundle.typed(`${name}node.origin`, "i32");
    this.flops = bundle.typed(`${name}node.flops`, "f64");
    this.bytes = bundle.typed(`${name}node.bytes`, "f64");
    this.sourceAt = bundle.typed(`${name}node.source_at`, "u32");
    this.source = bundle.typed(`${name}source.id`, "i32");
    for (const text of ["op", "text", "label", "type", "dtype", "shape", "name", "scope", "rule"])
      this.texts.set(text, bundle.typed(`${name}node.${text}`, "u32"));
    if (!header.stages?.length) throw damaged(`run ${index} has no stages`);
    if ([...this.texts.values(), this.kindOf, this.origin].some((one) => one.length !== this.rows))
      throw damaged(`the columns of run ${index} are not equally long`);
    this.id.forEach((id, row) => {
      const known = this.byId.get(id);
      if (known) known.push(row);
      else this.byId.set(id, [row]);
    });
  }

  string(index: number): string {
    return this.bundle.strings[index] ?? "";
  }

  // -- rows ---------------------------------------------------------------------------------------

  private textOf(column: string, row: number): string {
    return this.string(this.texts.get(column)![row]!);
  }
  /** The short name of the op: "mul". */
  op(row: number): string {
    return this.textOf("op", row);
  }
  /** The whole line in the text form. */
  text(row: number): string {
    return this.textOf("text", row);
  }
  /** What it is called in pictures: its op with the scalars that it reads, its kernel, or its name. */
  label(row: number): string {
    return this.textOf("label", row);
  }
  type(row: number): string {
    return this.textOf("type", row);
  }
  dtype(row: number): string {
    return this.textOf("dtype", row);
  }
  shape(row: number): string {
    return this.textOf("shape", row);
  }
  /** Without %. */
  name(row: number): string {
    return this.textOf("name", row);
  }
  scope(row: number): string {
    return this.textOf("scope", row);
  }
  /** What made it; "" for what was written. */
  rule(row: number): string {
    return this.textOf("rule", row);
  }
  kind(row: number): string {
    return this.kinds[this.kindOf[row]!] ?? "op";
  }
  /** The ids that it reads. */
  sources(row: number): Int32Array {
    return this.source.subarray(this.sourceAt[row], this.sourceAt[row + 1]);
  }
  /** All rows of an id, in the order in which they came to be. */
  rowsOf(id: number): readonly number[] {
    return this.byId.get(id) ?? NONE;
  }
  /** All rows, of any stage, that read an id. */
  readersOf(id: number): readonly number[] {
    if (!this.reading) {
      this.reading = new Map();
      for (let row = 0; row < this.rows; row++)
        for (const source of new Set(this.sources(row))) {
          const known = this.reading.get(source);
          if (known) known.push(row);
          else this.reading.set(source, [row]);
        }
    }
    return this.reading.get(id) ?? NONE;
  }
  /** The rows, of any stage, that a line wrote. */
  rowsOfOrigin(origin: number): readonly number[] {
    if (!this.written) {
      this.written = new Map();
      this.origin.forEach((one, row) => {
        const known = this.written!.get(one);
        if (known) known.push(row);
        else this.written!.set(one, [row]);
      });
    }
    return this.written.get(origin) ?? NONE;
  }

  // -- stages -------------------------------------------------------------------------------------

  private at(stage: number, column: string): string {
    return `r${this.index}/s${stage}/${column}`;
  }

  splices(stage: number): Splice[] {
    const flat = this.bundle.typed(this.at(stage, "splice"), "i32");
    const rows = this.bundle.typed(this.at(stage, "splice_rows"), "u32");
    const before = stage ? this.lines(stage - 1) : new Uint32Array();
    const found: Splice[] = [];
    let end = 0;
    for (let at = 0; at + 3 < flat.length; at += 4) {
      const [place, out, into, offset] = flat.subarray(at, at + 4) as unknown as [number, number, number, number];
      if (place < end || out < 0 || into < 0 || offset < 0 || place + out > before.length || offset + into > rows.length)
        throw damaged(`the text of stage ${stage} does not follow from the one before`);
      end = place + out;
      found.push({ place, gone: before.subarray(place, end), fresh: rows.subarray(offset, offset + into) });
    }
    return found;
  }

  /** The rows after a stage, in the graph's order: one a line of its text. */
  lines(stage: number): Uint32Array {
    // From the first on, as each is spliced into the one before.
    for (let one = this.lists.length; one <= stage; one++) {
      const before = this.lists[one - 1] ?? new Uint32Array();
      const splices = this.splices(one);
      const size = splices.reduce((sum, { gone, fresh }) => sum + fresh.length - gone.length, before.length);
      const found = new Uint32Array(size);
      let from = 0, to = 0;
      for (const { place, gone, fresh } of splices) {
        found.set(before.subarray(from, place), to);
        to += place - from;
        found.set(fresh, to);
        to += fresh.length;
        from = place + gone.length;
      }
      found.set(before.subarray(from), to);
      this.lists[one] = found;
    }
    return this.lists[stage]!;
  }

  firings(stage: number): Firings {
    if (!this.fired[stage]) {
      const column = (name: string) => {
        const full = this.at(stage, name);
        return this.bundle.has(full) ? this.bundle.typed(full, "u32") : new Uint32Array(1);
      };
      const rules = this.bundle.has(this.at(stage, "firing.rule")) ? column("firing.rule") : new Uint32Array();
      this.fired[stage] = new Firings(
        this, rules.length, rules, column("firing.because"), column("firing.gone_at"), column("firing.new_at"),
        column("gone"), column("new"),
      );
    }
    return this.fired[stage]!;
  }

  /** What became what in a stage, where the ids differ. */
  links(stage: number): Links {
    if (!this.linked[stage]) {
      const forward = new Map<number, number[]>(), back = new Map<number, number[]>();
      if (this.bundle.has(this.at(stage, "link.old"))) {
        const olds = this.bundle.typed(this.at(stage, "link.old"), "i32");
        const news = this.bundle.typed(this.at(stage, "link.new"), "i32");
        const put = (map: Map<number, number[]>, from: number, to: number) => {
          const known = map.get(from);
          if (known) known.push(to);
          else map.set(from, [to]);
        };
        olds.forEach((old, at) => {
          put(forward, old, news[at]!);
          put(back, news[at]!, old);
        });
      }
      this.linked[stage] = { forward, back };
    }
    return this.linked[stage]!;
  }

  view(index: number): View {
    const header = this.header.views[index];
    if (!header) throw damaged(`there is no view ${index}`);
    return (this.seen[index] ??= new View(this, this.bundle, index, header));
  }

  /** Whether the view of a stage is here, and not still to come. */
  hasView(stage: number): boolean {
    return this.header.views[this.stages[stage]!.view] !== null;
  }

  get isWhole(): boolean {
    return !this.header.views.includes(null);
  }

  viewOf(stage: number): View {
    return this.view(this.stages[stage]!.view);
  }

  /** The rows that are there when so many firings of a stage are done; all of them for -1. */
  alive(stage: number, firing = -1): Alive {
    if (firing >= 0 && stage === 0) firing = -1;
    const last = firing >= 0 ? this.firings(stage).count : 0;
    if (firing === 0) [stage, firing] = [stage - 1, -1];
    else if (firing >= last && firing > 0) firing = -1;
    const key = `${stage}/${firing}`;
    let found = this.kept.get(key);
    if (!found) {
      if (firing < 0) {
        const flags = new Uint8Array(this.rows);
        for (const row of this.lines(stage)) flags[row] = 1;
        found = new Alive(this, flags);
      } else {
        const { gone, fresh } = this.upTo(stage, firing);
        found = this.alive(stage - 1).after(gone, fresh);
      }
      if (this.kept.size >= KEPT_PLACES) this.kept.delete(this.kept.keys().next().value!);
      this.kept.set(key, found);
    }
    return found;
  }

  /** The stage whose graph has a row: the one that is looked at, or, of what it has removed, the one before. */
  homeOf(row: number, stage: number): number {
    return stage > 0 && this.alive(stage).row(this.id[row]!) < 0 && this.alive(stage - 1).has(row) ? stage - 1 : stage;
  }

  private upTo(stage: number, count: number): { gone: Set<number>; fresh: Set<number> } {
    const firings = this.firings(stage);
    const gone = new Set<number>(), fresh = new Set<number>();
    for (let firing = 0; firing < count; firing++) {
      for (const row of firings.gone(firing)) {
        fresh.delete(row);
        gone.add(row);
      }
      for (const row of firings.fresh(firing)) {
        gone.delete(row);
        fresh.add(row);
      }
    }
    return { gone, fresh };
  }

  /** What happened to a node, from where it was written or made to its end. */
  story(id: number): Happened[] {
    const found: Happened[] = [];
    const first = this.alive(0).row(id);
    if (first >= 0)
      found.push({ stage: 0, firing: -1, what: "written", rule: "", because: "", row: first, from: [], into: [] });
    const ids = (rows: Uint32Array) => [...new Set(Array.from(rows, (row) => this.id[row]!))];
    for (let stage = 1; stage < this.stages.length; stage++) {
      const firings = this.firings(stage);
      for (const firing of firings.touching(id)) {
        const gone = firings.gone(firing), fresh = firings.fresh(firing);
        const old = gone.find((row) => this.id[row] === id), now = fresh.find((row) => this.id[row] === id);
        found.push({
          stage, firing,
          what: now === undefined ? "taken out" : old === undefined ? "made" : "rewired",
          rule: firings.rule(firing), because: firings.because(firing),
          row: now ?? old!, from: ids(gone), into: ids(fresh),
        });
      }
    }
    return found;
  }
}
