// What is known beside the graphs: kernels, launches, buffers, rules, times; as Python writes it.

export interface Step {
  readonly text: string;
  readonly nest: string;
}

/** A rule of a search that fired, what it said of which terms, and the definition after it. */
export interface RuleStep {
  readonly rule: string;
  readonly told: string;
  readonly definition: string;
}

export interface Source {
  readonly dialect: "c" | "cuda" | "metal" | "webgpu" | "stablehlo";
  readonly title: string;
  readonly text: string;
  /** Lines from 1, and the ids of the nodes that each is made from. */
  readonly lines: readonly (readonly [number, readonly number[]])[];
  readonly resources: Readonly<Record<string, string | number>> | null;
  readonly ptx: string | null;
  readonly assembly?: Assembly | null;
}

/** What a machine runs: lines of the text, and the line of the source that each comes from. */
export interface Assembly {
  readonly text: string;
  readonly lines: readonly (readonly [number, number])[];
  readonly by: string;
}

export interface Kernel {
  readonly name: string;
  readonly definition: string;
  readonly nest: string;
  readonly schedule: string;
  readonly flops: number | null;
  readonly bytes: number | null;
  /** Why it was fused so. */
  readonly reason: string;
  /** The nest before the first step of the schedule. */
  readonly first: string;
  readonly steps: readonly Step[];
  readonly sources: readonly Source[];
  /** The definition as it was written, where a search has found the kernel; and the rules that lead from there. */
  readonly written: string;
  readonly rules: readonly RuleStep[];
}

/** A step on the way to a kernel: a rule, with definitions before and after it, or a step of its schedule, with nests. */
export interface Change {
  readonly kernel: string;
  readonly what: "definition" | "nest";
  readonly text: string;
  readonly before: string;
  readonly after: string;
}

/** How a kernel came of what was written: the rules that fired, then the steps. */
export function changes({ name, written, rules, first, steps }: Kernel): Change[] {
  return [
    ...rules.map(({ rule, told, definition }, at): Change => ({ kernel: name, what: "definition", text: `${rule}: ${told}`, before: at ? rules[at - 1]!.definition : written, after: definition })),
    ...steps.map(({ text, nest }, at): Change => ({ kernel: name, what: "nest", text, before: at ? steps[at - 1]!.nest : first, after: nest })),
  ];
}

/** The firings of the pass that has the derivation of kernels, in order. */
export function derivation(kernels: readonly Kernel[]): Change[] {
  return kernels.flatMap((kernel) => (kernel.written ? changes(kernel) : []));
}

/** The title of that pass. */
export const DERIVATION = "derivation";

export interface Launch {
  readonly kernel: number;
  readonly name: string;
  /** Its node in the last graph. */
  readonly node: number;
  readonly makes: readonly number[];
  readonly reads: readonly number[];
  /** Nodes of the graph as written. */
  readonly covers: readonly number[];
  readonly origins: readonly number[];
  /** Of each line its share of the time; of an old recording none. */
  readonly shares?: readonly number[];
  readonly buffers: readonly number[];
  /** How much each part of the model has written. */
  readonly scopes?: readonly (readonly [path: string, share: number])[];
  /** The kind of its work: "product", "copy". */
  readonly family?: string;
}

export interface Buffer {
  readonly name: string;
  readonly offset: number | null;
  readonly bytes: number | null;
  readonly first: number;
  readonly last: number;
  readonly nodes: readonly number[];
  readonly kind: "arena" | "input" | "output" | "constant" | "alias";
}

export interface Sketch {
  readonly nodes: readonly { readonly label: string; readonly reads: readonly number[] }[];
  readonly root: number;
}

export interface Rule {
  readonly text: string;
  readonly source: string;
  readonly file: string;
  readonly line: number;
  readonly because: string;
  readonly needs: readonly string[];
  readonly left: Sketch | null;
  readonly right: Sketch | null;
}

export interface Time {
  readonly launch: number;
  /** Seconds. */
  readonly median: number;
  readonly low: number;
  readonly high: number;
  readonly bytes: number | null;
  readonly flops: number | null;
  /** Of the roofline, from 0 to 1. */
  readonly share: number | null;
  readonly bound: "memory" | "compute" | null;
}

/** One run, in seconds after it began. */
export interface TimedRun {
  readonly seconds: number;
  /** The calls that launch kernels. */
  readonly calls: readonly (readonly [start: number, seconds: number])[];
  readonly kernels: readonly (readonly [launch: number, start: number, seconds: number])[];
  readonly note: string;
}

export interface Times {
  readonly device: string;
  readonly how: "measured" | "recorded" | "modelled";
  readonly note: string;
  readonly clock: string;
  readonly rows: readonly Time[];
  /** Why times or shares may be wrong: load, or a roof that was passed. */
  readonly doubts?: readonly string[];
  /** What the device runs; "" where nobody knows. */
  readonly dialect?: Source["dialect"] | "";
  /** When everything happened in one run; null where nobody measured it. */
  readonly run?: TimedRun | null;
}

export interface Gain {
  readonly how: "measured" | "modelled";
  readonly ratio: number;
  readonly seconds: number;
  readonly low: number | null;
  readonly high: number | null;
  readonly busy: number | null;
}

/** Something slow: what, why, where, and what to change. */
export interface Finding {
  readonly kind: string;
  readonly title: string;
  readonly why: string;
  readonly change: string;
  readonly lines: readonly string[];
  readonly code: string;
  readonly scope: string;
  /** Of the graph as written. */
  readonly nodes: readonly number[];
  readonly gain: Gain;
}

export interface Advice {
  readonly device: string;
  /** Of a run now. */
  readonly seconds: number;
  readonly findings: readonly Finding[];
  readonly tried: number;
  readonly notes: readonly string[];
}

/** A median, and the ends of its interval. */
export type Within = readonly [middle: number, low: number, high: number];

/** A schedule that was tried, and what came of it. */
export interface Try {
  readonly name: string;
  readonly schedule: string;
  readonly state: "first" | "faster" | "slower" | "as fast" | "wrong" | "refused" | "failed";
  readonly why: string;
  /** The line and the column that were refused, from 1. */
  readonly place: readonly [number, number];
  readonly step: string;
  readonly seconds: Within | null;
  readonly ratio: Within | null;
  readonly rounds: number;
  readonly modelled: number | null;
  readonly modelled_ratio: number | null;
  readonly kept: boolean;
  readonly python: string;
}

/** Schedules of a kernel, beside each other. */
export interface Board {
  readonly kernel: number;
  readonly device: string;
  readonly how: "measured" | "recorded";
  readonly sizes: string;
  readonly model: string;
  readonly tries: readonly Try[];
}

export interface Roofline {
  readonly device: string;
  readonly flops: number;
  readonly bytes: number;
  readonly how: string;
}

/** Something about a run as a whole, and the line that it is about, in its origins. */
export interface Remark {
  readonly text: string;
  readonly line: number | null;
}

export interface Cell {
  readonly title: string;
  readonly text: string;
}

/** Something that is sent in each run, and why; `node` is in the last graph, or -1 in a graph that is not here. */
export type SentRow = readonly [node: number, op: string, axis: string, of: string, bytes: number | null, why: string];

type Row<T> = readonly T[];

/** A turn of a worker: forward, backward, end, compute or send. */
export type Work = readonly [worker: number, phase: string, micro: number, start: number, end: number];
/** A value on its way from one stage to another. */
export type Letter = readonly [source: number, to: number, value: string, bytes: number, start: number, end: number];
/** A collective, from when all of its workers had come. */
export type Met = readonly [op: string, axis: string, workers: Row<number>, bytes: number, start: number, end: number];

/** When each worker did what in the last run. */
export interface Lanes {
  readonly workers: number;
  /** 0 where workers have no stages, but parts of all values. */
  readonly microbatches: number;
  readonly work: Row<Work>;
  readonly sent: Row<Letter>;
  readonly met: Row<Met>;
  /** By how many seconds a worker's clock may be off; null where all have the same one. */
  readonly within: number | null;
}

/** The workers of a mesh, or the stages of a pipeline. */
export interface Workers {
  readonly axes: Row<readonly [name: string, size: number]>;
  /** Nodes of the last graph by their layout, or their stage. */
  readonly cuts: Readonly<Record<string, Row<number>>>;
  readonly sent: Row<SentRow>;
  /** What can be annotated, as it was before the graph was spread. */
  readonly placed: Row<readonly [node: number, name: string, shape: string, words: Row<string>, annotated: boolean]>;
  readonly lanes: Lanes | null;
}

export interface Facts {
  readonly kernels: readonly Kernel[];
  readonly launches: readonly Launch[];
  readonly buffers: readonly Buffer[];
  readonly memory: { readonly before: number; readonly after: number } | null;
  readonly rules: Readonly<Record<string, Rule>>;
  readonly times: readonly Times[];
  readonly roofline: readonly Roofline[];
  /** The passes that say why they found nothing at a node. */
  readonly askable: readonly string[];
  /** What is slow, if somebody has asked. */
  readonly advice: Advice | null;
  readonly boards: readonly Board[];
  readonly cells: readonly Cell[];
  readonly environment: Readonly<Record<string, string | number>>;
  /** The Python that does this compile again. */
  readonly python: string;
  /** The Python of what it was given beside passes: the device alone, a licence. */
  readonly besides: readonly string[];
  readonly remarks: readonly Remark[];
  /** Null where there is but one. */
  readonly workers: Workers | null;
}

/** Facts with an empty list for each that was not sent. */
export function wholeFacts(sent: Partial<Facts>): Facts {
  return {
    launches: [], buffers: [], memory: null, rules: {}, times: [], roofline: [], boards: [], askable: [], advice: null, cells: [],
    environment: {}, python: "", besides: [], remarks: [], workers: null, ...sent,
    kernels: (sent.kernels ?? []).map((kernel) => ({ ...kernel, first: kernel.first ?? "" })),
  };
}
