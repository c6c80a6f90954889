// Makes bundles for tests, without Python: graphs from a few words, each frame laid out in plain rows.

import { read, type Bundle } from "../src/data/bundle";
import type { Arrays } from "../src/data/columns";
import type { Facts, Origin } from "../src/data/model";

export interface Node {
  readonly id: number;
  readonly op: string;
  readonly reads?: readonly number[];
  readonly type?: string;
  readonly name?: string;
  readonly scope?: string;
  readonly kind?: string;
  /** What it is called in pictures, if that is not its op or its name. */
  readonly label?: string;
  readonly origin?: number;
  readonly rule?: string;
}

export interface Fired {
  readonly rule: string;
  readonly because?: string;
  /** Nodes as they were and are, which may be in neither graph. */
  readonly gone: readonly Node[];
  readonly fresh: readonly Node[];
}

export interface Pass {
  readonly title: string;
  readonly nodes: readonly Node[];
  readonly outputs?: readonly number[];
  readonly firings?: readonly Fired[];
  readonly links?: readonly (readonly [number, number])[];
}

export interface Made {
  readonly title?: string;
  readonly origins?: readonly Origin[];
  readonly facts?: Partial<Facts>;
  /** The graph as written first. */
  readonly stages: readonly Pass[];
  /** Ids of views that are folded into what they read. */
  readonly folded?: readonly number[];
  /** The paths of the boxes that are open at first. */
  readonly open?: readonly string[];
  /** The stage that says most; the last where none is named. */
  readonly first?: number;
  /** The only stage whose view is there, where the others come later. */
  readonly only?: number;
}

export const KINDS = "input parameter constant source view op reduce call kernel launch host sent".split(" ");
const WIDTH = 100, HEIGHT = 40, BOX = [150, 44] as const, GAP = 30;

/** Bytes of the format from a header and columns. */
export function packed(header: object, columns: Readonly<Record<string, readonly [keyof Arrays, readonly number[]]>>): Uint8Array {
  const sizes = { u8: 1, i32: 4, u32: 4, f32: 4, f64: 8 };
  const makes = { u8: Uint8Array, i32: Int32Array, u32: Uint32Array, f32: Float32Array, f64: Float64Array };
  const named: Record<string, [string, number, number]> = {};
  let end = 0;
  for (const [name, [kind, values]] of Object.entries(columns)) {
    named[name] = [kind, end, values.length];
    end = Math.ceil((end + values.length * sizes[kind]) / 8) * 8;
  }
  let text = JSON.stringify({ schema: 1, made: "a test", ...header, columns: named });
  text += " ".repeat((8 - (new TextEncoder().encode(text).length % 8)) % 8);
  const head = new TextEncoder().encode(text);
  const bytes = new Uint8Array(8 + head.length + end);
  bytes.set([0x4c, 0x4c, 0x41, 0x42]);
  new DataView(bytes.buffer).setUint32(4, head.length, true);
  bytes.set(head, 8);
  for (const [name, [kind, values]] of Object.entries(columns)) {
    const column = makes[kind].from(values);
    bytes.set(new Uint8Array(column.buffer), 8 + head.length + named[name]![1]);
  }
  return bytes;
}

export function made(...runs: readonly Made[]): Bundle {
  return read(madeBytes(...runs));
}

export function madeBytes(...runs: readonly Made[]): Uint8Array {
  const strings: string[] = [""], known = new Map<string, number>([["", 0]]);
  const intern = (text: string) => {
    let found = known.get(text);
    if (found === undefined) {
      known.set(text, (found = strings.length));
      strings.push(text);
    }
    return found;
  };
  const columns: Record<string, [keyof Arrays, number[]]> = {};
  const headers = runs.map((run, index) => new Maker(run, `r${index}/`, columns, intern).header());
  return packed({ title: runs[0]!.title ?? "made", strings, runs: headers }, columns);
}

class Maker {
  private readonly rows: Node[] = [];
  private readonly rowOf = new Map<string, number>();
  private readonly folded: Set<number>;

  constructor(
    private readonly run: Made,
    private readonly prefix: string,
    private readonly columns: Record<string, [keyof Arrays, number[]]>,
    private readonly intern: (text: string) => number,
  ) {
    this.folded = new Set(run.folded);
  }

  private row(node: Node): number {
    const key = JSON.stringify([node.id, node.op, node.reads ?? [], node.type, node.scope]);
    let found = this.rowOf.get(key);
    if (found === undefined) {
      this.rowOf.set(key, (found = this.rows.length));
      this.rows.push(node);
    }
    return found;
  }

  header(): object {
    const views: (object | null)[] = [];
    let lines: number[] = [];
    let before: readonly Node[] = [];
    const stages = this.run.stages.map((pass, stage) => {
      const after = pass.nodes.map((node) => this.row(node));
      this.splice(stage, lines, after);
      this.firings(stage, pass);
      const effect = !stage || after.join() !== lines.join() || !!pass.firings?.length;
      if (effect) views.push(this.view(views.length, stage ? before : pass.nodes, pass));
      const counts: Record<string, number> = {};
      for (const { rule } of pass.firings ?? []) counts[rule] = (counts[rule] ?? 0) + 1;
      const found = {
        title: pass.title, name: pass.title.split("{")[0], seconds: 0.001, verified: true, checked: false, round: 1,
        before: before.length, after: after.length, effect: stage > 0 && effect, firings: pass.firings?.length ?? 0,
        counts, refusals: [], view: views.length - 1, outputs: pass.outputs ?? [],
        inputs: pass.nodes.filter((node) => node.op === "input").map((node) => node.id),
      };
      lines = after;
      before = pass.nodes;
      return found;
    });
    this.nodes();
    const { only } = this.run;
    if (only !== undefined) views.forEach((_, at) => at === stages[only]!.view || (views[at] = null));
    return {
      title: this.run.title ?? "made", pipeline: this.run.stages.slice(1).map(({ title }) => title).join(", "), first: this.run.first ?? stages.length - 1,
      origins: this.run.origins ?? [], kinds: KINDS, stages, views, facts: this.run.facts ?? {},
    };
  }

  private put(name: string, kind: keyof Arrays, values: readonly number[]): void {
    this.columns[this.prefix + name] = [kind, [...values]];
  }

  private nodes(): void {
    const text = (of: (node: Node) => string) => this.rows.map((node) => this.intern(of(node)));
    const name = (node: Node) => node.name ?? String(node.id);
    const type = (node: Node) => node.type ?? "f32[4]";
    this.put("node.id", "i32", this.rows.map((node) => node.id));
    this.put("node.op", "u32", text((node) => node.op));
    this.put("node.text", "u32", text((node) =>
      `%${name(node)} = ${node.op}(${(node.reads ?? []).map((id) => `%${id}`).join(", ")}) : ${type(node)}`));
    this.put("node.type", "u32", text(type));
    this.put("node.dtype", "u32", text((node) => type(node).split("[")[0]!));
    this.put("node.shape", "u32", text((node) => type(node).slice(type(node).indexOf("["))));
    this.put("node.label", "u32", text((node) => node.label ?? (node.op === "input" ? (node.name ?? node.op) : node.op)));
    this.put("node.name", "u32", text(name));
    this.put("node.scope", "u32", text((node) => node.scope ?? ""));
    this.put("node.origin", "i32", this.rows.map((node) => node.origin ?? -1));
    this.put("node.rule", "u32", text((node) => node.rule ?? ""));
    this.put("node.kind", "u8", this.rows.map((node) => KINDS.indexOf(node.kind ?? (node.op === "input" ? "input" : "op"))));
    this.put("node.flops", "f64", this.rows.map((_, row) => row));
    this.put("node.bytes", "f64", this.rows.map((_, row) => 16 * row));
    const at = [0];
    for (const node of this.rows) at.push(at.at(-1)! + (node.reads?.length ?? 0));
    this.put("node.source_at", "u32", at);
    this.put("source.id", "i32", this.rows.flatMap((node) => node.reads ?? []));
  }

  private splice(stage: number, before: readonly number[], after: readonly number[]): void {
    let start = 0;
    while (start < before.length && before[start] === after[start]) start++;
    let end = 0;
    while (end < Math.min(before.length, after.length) - start && before.at(-1 - end) === after.at(-1 - end)) end++;
    const fresh = after.slice(start, after.length - end), out = before.length - end - start;
    this.put(`s${stage}/splice`, "i32", fresh.length || out ? [start, out, fresh.length, 0] : []);
    this.put(`s${stage}/splice_rows`, "u32", fresh);
  }

  private firings(stage: number, pass: Pass): void {
    if (!stage) return;
    const firings = pass.firings ?? [], gone = [0], fresh = [0];
    for (const one of firings) {
      gone.push(gone.at(-1)! + one.gone.length);
      fresh.push(fresh.at(-1)! + one.fresh.length);
    }
    this.put(`s${stage}/firing.rule`, "u32", firings.map((one) => this.intern(one.rule)));
    this.put(`s${stage}/firing.because`, "u32", firings.map((one) => this.intern(one.because ?? "")));
    this.put(`s${stage}/firing.gone_at`, "u32", gone);
    this.put(`s${stage}/firing.new_at`, "u32", fresh);
    this.put(`s${stage}/gone`, "u32", firings.flatMap((one) => one.gone.map((node) => this.row(node))));
    this.put(`s${stage}/new`, "u32", firings.flatMap((one) => one.fresh.map((node) => this.row(node))));
    this.put(`s${stage}/link.old`, "i32", (pass.links ?? []).map(([old]) => old));
    this.put(`s${stage}/link.new`, "i32", (pass.links ?? []).map(([, now]) => now));
  }

  /** The union of two graphs and of what lived between, each scope a frame. */
  private view(index: number, before: readonly Node[], pass: Pass): object {
    const was = new Map(before.map((node) => [node.id, node])), is = new Map(pass.nodes.map((node) => [node.id, node]));
    const all = new Map<number, Node>();
    for (const node of [...before, ...(pass.firings ?? []).flatMap((one) => one.fresh), ...pass.nodes]) all.set(node.id, node);
    const nodes = [...all.values()].filter((node) => !this.folded.has(node.id));
    const root = (id: number): number => (this.folded.has(id) && all.get(id)?.reads?.length ? root(all.get(id)!.reads![0]!) : id);
    // Frames, outer ones first.
    const paths = new Set<string>([""]);
    for (const { scope = "" } of nodes) scope.split(".").forEach((_, at, names) => paths.add(names.slice(0, at + 1).join(".")));
    const frames = [...paths].sort((a, b) => depth(a) - depth(b));
    const frameOf = new Map(frames.map((path, frame) => [path, frame]));
    const inside: (Node | string)[][] = frames.map((path) => [
      ...nodes.filter((node) => (node.scope ?? "") === path),
      ...frames.filter((inner) => inner && outer(inner) === path),
    ]);
    const thingAt = [0];
    for (const one of inside) thingAt.push(thingAt.at(-1)! + one.length);
    const things = inside.flat();
    const place = new Map<string, number>();
    inside.forEach((one) => one.forEach((thing, at) => place.set(named(thing), at)));
    const boxes = things.filter((thing) => typeof thing === "string");
    const status = (id: number) => {
      const [old, now] = [was.get(id), is.get(id)];
      return !old && !now ? 4 : !old ? 1 : !now ? 2 : this.row(old) === this.row(now) ? 0 : 3;
    };
    // Wires, cut at the borders of frames.
    const wires: Map<string, number[]>[] = frames.map(() => new Map()), ports: Map<string, number[]>[] = frames.map(() => new Map());
    const port = (frame: number, side: number, row: number, kind: number) => {
      const known = ports[frame]!, key = `${side}/${row}/${kind}`;
      if (!known.has(key)) known.set(key, [known.size, side, row, kind]);
      return -1 - known.get(key)![0]!;
    };
    const label = new Map<string, string>();
    const wire = (from: number, to: Node, kind: number, views: string) => {
      const source = all.get(from)!, carried = this.row(source);
      const start = chain(source.scope ?? ""), end = chain(to.scope ?? "");
      let same = 0;
      while (same < Math.min(start.length, end.length) && start[same] === end[same]) same++;
      const add = (path: string, one: number, other: number) => {
        const key = `${one}/${other}/${carried}/${kind}`, known = wires[frameOf.get(path)!]!;
        known.set(key, [one, other, carried, kind, (known.get(key)?.[4] ?? 0) + 1]);
        label.set(`${path}|${key}`, views);
      };
      let at = place.get(named(source))!;
      for (const path of start.slice(same).reverse()) {
        add(path, at, port(frameOf.get(path)!, 1, carried, kind));
        at = place.get(path)!;
      }
      for (let deep = same; deep <= end.length; deep++) {
        const path = deep ? end[deep - 1]! : "";
        add(path, at, deep < end.length ? place.get(end[deep]!)! : place.get(named(to))!);
        if (deep < end.length) at = port(frameOf.get(end[deep]!)!, 0, carried, kind);
      }
    };
    for (const node of nodes) {
      const [old, now] = [was.get(node.id)?.reads ?? [], (is.get(node.id) ?? (was.has(node.id) ? undefined : node))?.reads ?? []];
      for (const id of new Set([...now, ...old])) {
        if (this.folded.has(root(id))) continue; // a scalar
        const from = root(id);
        if (!all.has(from)) continue;
        const own = status(node.id);
        const kind = own === 3 ? (old.includes(id) ? (now.includes(id) ? 0 : 2) : 1) : own;
        wire(from, node, kind, from === id ? "" : all.get(id)!.op);
      }
    }
    const v = `v${index}/`, put = (name: string, kind: keyof Arrays, values: readonly number[]) => this.put(v + name, kind, values);
    const summed = (lists: readonly { size: number }[]) => lists.reduce((sums, one) => (sums.push(sums.at(-1)! + one.size), sums), [0]);
    const flat = (lists: Map<string, number[]>[], column: number) => lists.flatMap((one) => [...one.values()].map((entry) => entry[column]!));
    put("frame.thing_at", "u32", thingAt);
    put("frame.wire_at", "u32", summed(wires));
    put("frame.port_at", "u32", summed(ports));
    put("frame.box", "i32", frames.map((path) => (path ? things.indexOf(path) : -1)));
    put("thing.row", "i32", things.map((one) => (typeof one === "string" ? -1 : this.row(is.get(one.id) ?? one))));
    put("thing.old", "i32", things.map((one) => (typeof one !== "string" && status(one.id) === 3 ? this.row(was.get(one.id)!) : -1)));
    put("thing.box", "i32", things.map((one) => (typeof one === "string" ? boxes.indexOf(one) : -1)));
    put("thing.frame", "u32", inside.flatMap((one, frame) => one.map(() => frame)));
    put("thing.opens", "i32", things.map((one) => (typeof one === "string" ? frameOf.get(one)! : -1)));
    put("thing.marks", "u8", things.map((one) => (typeof one !== "string" && pass.outputs?.includes(one.id) ? 1 : 0)));
    put("thing.status", "u8", things.map((one) => (typeof one === "string" || was === is ? 0 : status(one.id))));
    [["source", "i32"], ["target", "i32"], ["carried", "u32"], ["status", "u8"]].forEach(([name, kind], at) =>
      put(`wire.${name}`, kind as keyof Arrays, flat(wires, at)));
    put("wire.count", "u32", flat(wires, 4));
    put("wire.label", "u32", wires.flatMap((one, frame) => [...one.keys()].map((key) => this.intern(label.get(`${frames[frame]}|${key}`)!))));
    [["side", "u8"], ["row", "u32"], ["status", "u8"]].forEach(([name, kind], at) =>
      put(`port.${name}`, kind as keyof Arrays, flat(ports, at + 1)));
    const isIn = (id: number, gone: number): boolean => ![gone, 4].includes(status(id));
    const sides = was === is ? {} : Object.fromEntries((["before", "after"] as const).map((side): [string, Side] => {
      const gone = side === "before" ? 1 : 2;
      return [side, {
        has: (thing) => (typeof thing === "string" ? nodes.some(({ id, scope = "" }) => `${scope}.`.startsWith(`${thing}.`) && isIn(id, gone)) : isIn(thing.id, gone)),
        hasWire: (kind) => kind !== gone && kind !== 4,
      }];
    }));
    const layouts = this.layouts(put, inside, wires, ports, sides);
    const views = nodes.length < all.size ? [...this.folded].filter((id) => all.has(id)) : [];
    // A scalar stands in all that read it, a view in what it reads.
    const standing = views.flatMap((id) => {
      const into = all.get(id)!.reads?.length ? [all.get(root(id))!] : nodes.filter(({ reads = [] }) => reads.map(root).includes(id));
      return into.map((one) => [this.row(all.get(id)!), this.row(one)] as const);
    });
    put("folded.row", "u32", standing.map(([row]) => row));
    put("folded.into", "u32", standing.map(([, into]) => into));
    return {
      frames: frames.length, things: things.length, layouts,
      boxes: boxes.map((path) => ({
        name: path.slice(outer(path).length).replace(/^\./, ""), path,
        nodes: nodes.filter(({ scope = "" }) => scope === path || scope.startsWith(`${path}.`)).length, times: 1, members: [],
      })),
      open: this.run.open ?? [],
      shown: views.length ? `${nodes.length} of ${all.size} nodes (${views.length} views in the edges)` : `${nodes.length} of ${all.size} nodes`,
    };
  }

  /** Things in rows, each below what it reads, wires straight from border to border; returns how many layouts that makes. */
  private layouts(
    put: (name: string, kind: keyof Arrays, values: readonly number[]) => void,
    inside: readonly (readonly (Node | string)[])[], wires: readonly Map<string, number[]>[], ports: readonly Map<string, number[]>[],
    sides: Readonly<Record<string, Side>>,
  ): number {
    const known = new Map<string, number>();
    const sizes: number[] = [], rects: number[][] = [], portsAt: number[][] = [], courses: number[][][] = [];
    const chosen = (side: Side): number[] => inside.map((things, frame) => {
      const level = things.map(() => 0), all = [...wires[frame]!.values()];
      const isThere = (end: number): boolean => end < 0 || side.has(things[end]!);
      const ends = all.filter(([from, to, , kind]) => side.hasWire(kind!) && isThere(from!) && isThere(to!));
      for (let again = true, turn = 0; again && turn < things.length; turn++) {
        again = false;
        for (const [from, to] of ends as [number, number][])
          if (from >= 0 && to >= 0 && level[to]! < level[from]! + 1) {
            level[to] = level[from]! + 1;
            again = true;
          }
      }
      const next: number[] = [], own: number[][] = [];
      things.forEach((thing, at) => {
        if (!side.has(thing)) return void own.push([0, 0, 0, 0]);
        const [width, height] = typeof thing === "string" ? BOX : [WIDTH, HEIGHT];
        const left = next[level[at]!] ?? 0;
        next[level[at]!] = left + width + GAP;
        own.push([left, level[at]! * (BOX[1] + GAP) + (BOX[1] - height) / 2, width, height]);
      });
      const width = Math.max(0, ...own.map(([x, , w]) => x! + w!), 20 * ports[frame]!.size);
      const height = Math.max(0, ...own.map(([, y, , h]) => y! + h!));
      const sides = [...ports[frame]!.values()].map(([, side]) => side!);
      const x = sides.map((_, at) => 10 + 20 * at);
      const lines = (all as [number, number][]).map((wire) => {
        if (!ends.includes(wire)) return [];
        const [from, to] = wire;
        const up = own[from], down = own[to];
        const start = up ? [up[0]! + up[2]! / 2, up[1]! + up[3]!] : [x[-1 - from]!, sides[-1 - from] ? height : 0];
        const end = down ? [down[0]! + down[2]! / 2, down[1]!] : [x[-1 - to]!, sides[-1 - to] ? height : 0];
        return [2, ...start, 2, ...end] as number[];
      });
      const key = JSON.stringify([width, height, own, x, lines]);
      if (!known.has(key)) {
        known.set(key, known.size);
        sizes.push(width, height);
        rects.push(own.flat());
        portsAt.push(x);
        courses.push(lines);
      }
      return known.get(key)!;
    });
    put("frame.layout", "u32", chosen({ has: () => true, hasWire: () => true }));
    for (const [name, side] of Object.entries(sides)) put(`frame.${name}`, "u32", chosen(side));
    const summed = (counts: readonly number[]) => counts.reduce((sums, one) => (sums.push(sums.at(-1)! + one), sums), [0]);
    put("layout.size", "f32", sizes);
    put("layout.thing_at", "u32", summed(rects.map((one) => one.length / 4)));
    put("layout.wire_at", "u32", summed(courses.map((one) => one.length)));
    put("layout.port_at", "u32", summed(portsAt.map((one) => one.length)));
    put("layout.rect", "f32", rects.flat());
    put("layout.port", "f32", portsAt.flat());
    put("layout.course_at", "u32", summed(courses.flat().map((one) => one.length)));
    put("layout.course", "f32", courses.flat(2));
    return known.size;
  }
}

/** What one graph of a pass has. */
interface Side {
  has(thing: Node | string): boolean;
  hasWire(kind: number): boolean;
}

const depth = (path: string) => (path ? path.split(".").length : 0);
const outer = (path: string) => path.split(".").slice(0, -1).join(".");
const chain = (path: string) => (path ? path.split(".").map((_, at, names) => names.slice(0, at + 1).join(".")) : []);
const named = (thing: Node | string) => (typeof thing === "string" ? thing : `#${thing.id}`);
