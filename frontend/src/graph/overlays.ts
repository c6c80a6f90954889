// What nodes can be coloured by; each says the same in words at the node and in a legend.

import type { Live } from "../data/live";
import type { Run } from "../data/model";
import { named } from "../data/named";
import { classOf, lastOf, layoutWords, sendingAt, sizeSent, spreadOf, WHOLE } from "../data/spread";
import type { Entry, Overlay, Place, Store } from "../data/store";
import { bytes, count, many, seconds } from "../data/units";

/** Something that can be chosen; what the kernel has to work out comes later. */
export interface Choice {
  readonly name: string;
  make(): Overlay | Promise<Overlay>;
}

/** The overlay that a run of several workers begins with. */
export const CUT = "how it is cut";

/** As Python sends one: `explorer.overlay = {…}`. */
export interface Given {
  readonly title: string;
  readonly values: Readonly<Record<string, number>>;
  readonly texts?: Readonly<Record<string, string>>;
}

/** All that there is for the present place. */
export function choices(store: Store, live: Live): Choice[] {
  const { run, place } = store;
  const { stage } = place;
  const byRow = (column: Float64Array): Map<number, number> =>
    new Map(Array.from(run.lines(stage), (row): [number, number] => [run.id[row]!, column[row]!]).filter(([, value]) => value > 0));
  const scope = (depth: number) => (row: number) => run.scope(row).split(".").slice(0, depth).join(".");
  const made: Record<string, (name: string) => Overlay | Promise<Overlay>> = {};
  if (run.facts.workers) {
    made[CUT] = (name) => cut(run, stage, name);
    made["bytes sent"] = (name) => amounts(run, name, sent(run), (value) => `sends ${bytes(value)}`, { sums: true, note: "what each worker sends in a run" });
  }
  run.facts.times.forEach(({ device, how }, at) => (made[`time, ${how} on ${device}`] = (name) => timed(run, stage, at, name)));
  Object.assign(made, {
    flops: (name) => amounts(run, name, byRow(run.flops), (value) => `${many(value)} flop`, { sums: true }),
    "bytes read and written": (name) => amounts(run, name, byRow(run.bytes), bytes, { sums: true }),
    "memory in use": (name) => memory(run, stage, name),
    dtype: (name) => classes(run, stage, name, (row) => run.dtype(row)),
    scope: (name) => classes(run, stage, name, scope([1, 2, 3].find((depth) => new Set(Array.from(run.lines(stage), scope(depth))).size > 2) ?? 4)),
    "changed by": (name) => changed(run, stage, name),
    "numeric error": async (name) => {
      const reply = await live.ask("error_overlay", { run: place.run });
      return errors(run, name, numbers(reply["values"]), String(reply["text"] ?? ""));
    },
  } satisfies typeof made);
  return Object.entries(made).map(([name, make]) => ({ name, make: () => make(name) }));
}

/** Numbers and words by ids, as Python has them. */
export function ofPython(run: Run, { title, values, texts = {} }: Given): Overlay {
  return amounts(run, title, numbers(values), (value, id) => texts[id] ?? String(value));
}

/** All that some nodes depend on, or that depends on them; the nearer, the warmer. */
export function traced(run: Run, place: Place, ids: readonly number[], way: "ancestors" | "descendants"): Overlay {
  const alive = run.alive(place.stage, place.firing), isUp = way === "ancestors";
  const steps = new Map(ids.map((id) => [id, 0]));
  let far = 0;
  for (const [id, step] of steps) {
    const row = alive.row(id);
    far = step;
    // What is put into a map comes later in its turn.
    if (row >= 0)
      for (const other of isUp ? run.sources(row) : run.readersOf(id).filter((one) => alive.has(one)).map((one) => run.id[one]!))
        if (!steps.has(other)) steps.set(other, step + 1);
  }
  const whom = ids.length > 1 ? `${ids.length} nodes` : named(run, ids);
  const heat = (step: number): number => 1 - (0.85 * step) / (far || 1);
  const words = (step: number): string => (step ? `${isUp ? "↑" : "↓"} ${count(step, "step")}` : "from here");
  const overlay = amounts(run, isUp ? `what ${whom} depends on` : `what depends on ${whom}`, steps, words, { heat });
  const legend = [
    { heat: 1, text: words(0), count: ids.length },
    { heat: heat(far), text: far ? `up to ${words(far)} away` : "nothing else", count: steps.size - ids.length },
  ];
  return { ...overlay, legend };
}

function numbers(given: unknown): Map<number, number> {
  return new Map(Object.entries(given ?? {}).map(([id, value]): [number, number] => [Number(id), Number(value)]).filter(([id, value]) => id >= 0 && !Number.isNaN(value)));
}

interface Manner {
  /** Whether a box is worth the sum of what is in it; the most otherwise. */
  readonly sums?: boolean;
  readonly note?: string;
  heat?(value: number): number;
}

/** Numbers by ids. */
function amounts(run: Run, name: string, values: ReadonlyMap<number, number>, words: (value: number, id: number) => string, { sums, note, heat }: Manner = {}): Overlay {
  const size = (id: number): number => Math.abs(values.get(id)!);
  let top = -1;
  for (const id of values.keys()) if (top < 0 || size(id) > size(top)) top = id;
  const most = top < 0 ? 0 : size(top);
  const total = [...values.values()].reduce((all, value) => all + value, 0);
  const warmth = heat ?? ((value: number) => (most ? Math.min(1, Math.abs(value) / most) : 0));
  const said = (id: number): string => words(values.get(id)!, id);
  const legend: Entry[] = [{ heat: null, text: sums ? `${words(total, -1)} in all` : `${count(values.size, "node")} with a number` }];
  if (top >= 0) legend.unshift({ heat: warmth(most), text: `most: ${said(top)} at ${named(run, [top])}` });
  if (note) legend.push({ heat: null, text: note });
  return {
    name,
    legend,
    heat: (row) => (values.has(run.id[row]!) ? warmth(values.get(run.id[row]!)!) : null),
    text: (row) => (values.has(run.id[row]!) ? said(run.id[row]!) : ""),
    inBox: (rows) => {
      const ids = [...new Set(Array.from(rows, (row) => run.id[row]!))].filter((id) => values.has(id));
      if (!ids.length) return null;
      if (!sums) {
        const best = ids.reduce((one, id) => (warmth(values.get(id)!) > warmth(values.get(one)!) ? id : one));
        return { heat: warmth(values.get(best)!), text: `${ids.length > 1 ? "≤ " : ""}${said(best)}` };
      }
      const sum = ids.reduce((all, id) => all + values.get(id)!, 0);
      return { heat: total ? sum / total : 0, text: `${words(sum, -1)}, ${Math.round((100 * sum) / total || 0)} %` };
    },
  };
}

function timed(run: Run, stage: number, at: number, name: string): Overlay {
  const values = new Map<number, number>(), parts = new Set<number>(), alive = run.alive(stage);
  for (const { launch, median } of run.facts.times[at]!.rows) {
    const { node, covers } = run.facts.launches[launch] ?? { node: -1, covers: [] };
    if (alive.row(node) >= 0) values.set(node, (values.get(node) ?? 0) + median);
    // Before fusion its nodes share it.
    else
      for (const id of covers) {
        values.set(id, median / covers.length);
        parts.add(id);
      }
  }
  const note = parts.size ? { note: "≈: an equal part of the launch that it is in" } : {};
  return amounts(run, name, values, (value, id) => `${parts.has(id) ? "≈ " : ""}${seconds(value)}`, { sums: true, ...note });
}

/** The bytes of a value, read off its type; NaN where a symbol is open. */
export function sizeOf(run: Run, row: number): number {
  const bits = /\d+/.exec(run.dtype(row))?.[0] ?? 8;
  return run.shape(row).replace(/[[\]]/g, "").split(",").reduce((size, dim) => (dim.trim() ? size * Number(dim) : size), Number(bits) / 8);
}

/** What is there before the graph runs. */
const HELD = new Set(["input", "parameter", "constant"]);

function memory(run: Run, stage: number, name: string): Overlay {
  const values = new Map<number, number>();
  const { buffers, launches } = run.facts;
  if (stage === run.stages.length - 1 && launches.length && buffers.length) {
    launches.forEach(({ node }, at) => {
      const used = buffers.filter(({ kind, first, last }) => (kind === "arena" || kind === "output") && first <= at && at <= last);
      values.set(node, Math.max(values.get(node) ?? 0, used.reduce((sum, one) => sum + (one.bytes ?? 0), 0)));
    });
    return amounts(run, name, values, bytes, { note: "when the kernel runs, as planned" });
  }
  const rows = run.lines(stage), lastRead = new Map<number, number>(), root = new Map<number, number>();
  rows.forEach((row, at) => {
    const id = run.id[row]!, sources = run.sources(row);
    // A view has the memory of what it looks at.
    root.set(id, run.kind(row) === "view" ? (root.get(sources[0]!) ?? id) : id);
    for (const source of sources) lastRead.set(root.get(source) ?? source, at);
  });
  for (const id of run.stages[stage]!.outputs) lastRead.set(root.get(id) ?? id, rows.length);
  const freed = new Float64Array(rows.length + 1);
  let used = 0;
  rows.forEach((row, at) => {
    const id = run.id[row]!, size = sizeOf(run, row);
    if (!HELD.has(run.kind(row)) && root.get(id) === id && !Number.isNaN(size)) {
      values.set(id, (used += size));
      freed[lastRead.get(id) ?? at]! += size;
    }
    used -= freed[at]!;
  });
  return amounts(run, name, values, bytes, { note: "when the node runs, without inputs and constants" });
}

const TINTS = 8;

/** What workers send, by the nodes at which they do. */
function sent(run: Run): Map<number, number> {
  return new Map([...spreadOf(run)!.sent].flatMap(([id, { bytes: size }]) => (size ? [[id, size]] : [])));
}

/** The colours that a run of several workers begins with. */
export function cutOverlay({ run, place }: Store): Overlay | null {
  return run.facts.workers && cut(run, place.stage, CUT);
}

/** Which axes of the mesh cut each value, or in which stage it is; what is sent says so as well. */
function cut(run: Run, stage: number, name: string): Overlay {
  const { cuts } = spreadOf(run)!;
  const layout = (row: number): string | undefined => cuts.get(lastOf(run, stage, run.id[row]!));
  const overlay = classes(run, stage, name, (row) => (layout(row) === undefined ? "" : classOf(layout(row)!)), WHOLE);
  const text = (row: number): string => {
    const at = layout(row), sending = sendingAt(run, row);
    return [sending && sizeSent(sending), at !== undefined && layoutWords(at)].filter(Boolean).join(", ");
  };
  return { ...overlay, text };
}

/** Things of one kind have one colour and say which they are; those of the class `plain` stand back. */
function classes(run: Run, stage: number, name: string, of: (row: number) => string, plain = ""): Overlay {
  const counted = (rows: ArrayLike<number>): [string, number][] => {
    const counts = new Map<string, number>();
    for (const what of Array.from(rows, of)) if (what) counts.set(what, (counts.get(what) ?? 0) + 1);
    return [...counts].sort((a, b) => b[1] - a[1]);
  };
  const ordered = counted(run.lines(stage));
  if (plain) ordered.sort(([one], [other]) => Number(one === plain) - Number(other === plain) || one.localeCompare(other));
  const places = new Map(ordered.map(([what], at) => [what, what === plain ? TINTS - 1 : Math.min(at, TINTS - 1)]));
  const tint = (what: string): string | null => (places.has(what) ? `var(--ll-tint-${places.get(what)!})` : null);
  const rest = ordered.slice(TINTS);
  const legend = ordered.slice(0, TINTS).map(([text, count], at): Entry => {
    const isShared = at === TINTS - 1 && rest.length > 0;
    return { heat: null, tint: tint(text), text: isShared ? `${rest.length + 1} others` : text, count: isShared ? rest.reduce((sum, [, one]) => sum + one, count) : count };
  });
  return {
    name,
    legend: legend.length ? legend : [{ heat: null, text: "no node has any here" }],
    heat: () => null,
    text: of,
    tint: (row) => tint(of(row)),
    inBox: (rows) => {
      const [most, ...others] = counted(rows);
      return most ? { heat: null, tint: tint(most[0]), text: most[0] + (others.length ? ` and ${others.length} more` : "") } : null;
    },
  };
}

function changed(run: Run, stage: number, name: string): Overlay {
  const by = new Map<number, string>();
  for (let one = 1; one <= stage; one++) {
    const firings = run.firings(one);
    for (let firing = 0; firing < firings.count; firing++) for (const row of firings.fresh(firing)) by.set(row, run.stages[one]!.name);
  }
  return classes(run, stage, name, (row) => by.get(row) ?? "as written");
}

const EXACT = 1e-9;

/** Errors differ by orders of magnitude, and so does their heat. */
function errors(run: Run, name: string, values: ReadonlyMap<number, number>, note: string): Overlay {
  const heat = (value: number): number => (Number.isFinite(value) ? Math.max(0, Math.min(1, 1 + Math.log10(Math.max(Math.abs(value), EXACT)) / 9)) : 1);
  const words = (value: number): string => (value === 0 ? "exact" : Number.isFinite(value) ? value.toExponential(1) : "not finite");
  return amounts(run, name, values, words, { heat, note: note || "relative; the bar has a tenth for each factor of 8" });
}
