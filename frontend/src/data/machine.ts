// A compile that this page computes by itself: WebAssembly that runs when somebody has said so, and
// whose values are worked out where somebody looks, each at most once for what the inputs are.

import { damaged, unpacked } from "./columns";
import { Gpu, type Shaders } from "./gpu";
import { arrayOf, decoded, encode, type Numbers } from "./numbers";

/** How somebody changes an input. */
export interface Control {
  readonly kind: "sliders" | "pad" | "text";
  readonly low: number;
  readonly high: number;
  /** The words that whole numbers stand for. */
  readonly words: readonly string[] | null;
  /** How many there are of something that would have a pad if it were alone; else 1. */
  readonly rows: number;
}

/** A result of the graph: its node in the last graph, and what the places of its last axis mean. */
export interface Result {
  readonly id: number;
  readonly name: string;
  readonly words: readonly string[] | null;
}

interface InputHeader {
  readonly name: string;
  readonly id: number;
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly bytes: number;
}

interface Header {
  readonly format: number;
  readonly wasm: number;
  readonly weights: number;
  readonly dims: readonly number[];
  readonly step: number;
  readonly inputs: readonly InputHeader[];
  readonly controls: readonly Control[];
  readonly results: readonly Result[];
  readonly said: string;
  readonly ids: readonly number[];
  readonly places: readonly number[];
  readonly types: readonly (readonly [dtype: string, shape: readonly number[]])[];
  readonly typed: readonly number[];
  readonly outputs: readonly number[];
  readonly offsets: readonly number[];
  readonly reads: readonly (readonly number[])[];
  readonly makes: readonly (readonly number[])[];
  readonly gpu: Shaders;
}

/** The numbers of a value, row by row. */
export interface Value {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly numbers: ArrayLike<number>;
}

/** An input: what it is now, and what it was at first. */
export interface Input extends InputHeader {
  readonly control: Control;
  readonly first: ArrayLike<number>;
}

interface Exports {
  readonly memory: WebAssembly.Memory;
  page_open(weights: number, bytes: number): number;
  page_sizes_of(dims: number, sizes: number): number;
  page_some(dims: number, weights: number, into: number, out: number, arena: number, step: number, asked: number): number;
}

const FAULTS: Readonly<Record<number, string>> = {
  2: "The weights of this page are damaged.",
  3: "The sizes of this page are damaged.",
  4: "An index in the inputs is out of range.",
};
const PAGE = 65_536;

/** Memory and calls of a module that runs. */
interface Running {
  readonly calls: Exports;
  /** Where each place is: inputs, then outputs, then weights. */
  readonly places: readonly number[];
  readonly inputs: readonly Numbers[];
  readonly asked: number;
  run(): number;
}

export class Machine {
  readonly inputs: readonly Input[];
  readonly results: readonly Result[];
  /** What the inputs are at first. */
  readonly said: string;
  /** Milliseconds of the launches since somebody last began to count. */
  spent = 0;
  private running: Running | null = null;
  /** What launches by WebGPU, while the switch says so; and what it has yet to launch. */
  private gpu: Gpu | null = null;
  private readonly asked = new Set<number>();
  /** The launches whose inputs have changed since the GPU began. */
  private readonly stale = new Set<number>();
  private settling: Promise<void> | null = null;
  /** Why WebGPU has stopped by itself; empty if it has not. */
  failure = "";
  private readonly index: ReadonlyMap<number, number>;
  /** The launch that makes each place. */
  private readonly maker = new Map<number, number>();
  /** The launches that depend on each input. */
  private readonly behind: readonly (readonly number[])[];
  private readonly fresh: Uint8Array;
  private readonly listeners = new Set<() => void>();

  private constructor(
    private readonly header: Header,
    private readonly wasm: Uint8Array,
    private readonly weights: Uint8Array,
    private readonly given: readonly Uint8Array[],
  ) {
    this.index = new Map(header.ids.map((id, at) => [id, at]));
    header.makes.forEach((places, launch) => places.forEach((place) => this.maker.set(place, launch)));
    const behind: number[][] = header.inputs.map(() => []);
    const needs = header.reads.map(() => new Set<number>());
    header.reads.forEach((places, launch) => {
      for (const place of places) {
        if (place < behind.length) needs[launch]!.add(place);
        else for (const input of needs[this.maker.get(place) ?? -1] ?? []) needs[launch]!.add(input);
      }
      for (const input of needs[launch]!) behind[input]!.push(launch);
    });
    this.behind = behind;
    this.fresh = new Uint8Array(header.makes.length);
    this.inputs = header.inputs.map((one, at) => ({ ...one, control: header.controls[at]!, first: decoded(one.dtype, arrayOf(one.dtype, given[at]!.slice().buffer, 0, sizeOf(one.shape))) }));
    this.results = header.results;
    this.said = header.said;
  }

  /** Read what a page brings along; nothing of it runs yet. */
  static async read(packed: Uint8Array): Promise<Machine> {
    const bytes = await unpacked(packed);
    const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
    const header = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length))) as Header;
    if (header.format !== 1) throw damaged("its format is not 1");
    let at = 4 + length;
    const next = (size: number): Uint8Array => bytes.subarray(at, (at += size));
    return new Machine(header, next(header.wasm), next(header.weights), header.inputs.map((one) => next(one.bytes)));
  }

  /** The bytes of its WebAssembly and of its weights. */
  get sizes(): readonly [wasm: number, weights: number] {
    return [this.header.wasm, this.header.weights];
  }

  get isRunning(): boolean {
    return this.running !== null;
  }

  /** Start it: from now on it has values. */
  async start(): Promise<void> {
    if (this.running) return;
    const { instance } = await WebAssembly.instantiate(this.wasm as BufferSource, {});
    const calls = instance.exports as unknown as Exports, { memory } = calls, { header } = this;
    let top = memory.buffer.byteLength;
    const place = (size: number): number => {
      const begin = top;
      top += Math.ceil(Math.max(1, size) / 64) * 64;
      const missing = Math.ceil((top - memory.buffer.byteLength) / PAGE);
      if (missing > 0) memory.grow(missing);
      return begin;
    };
    const put = (bytes: Uint8Array): number => {
      const begin = place(bytes.length);
      new Uint8Array(memory.buffer).set(bytes, begin);
      return begin;
    };
    const pointers = (all: readonly number[]): number => put(new Uint8Array(new Uint32Array(all).buffer));
    const weights = put(this.weights), dims = put(new Uint8Array(new BigInt64Array(header.dims.map(BigInt)).buffer));
    const inputs = this.given.map(put), outputs = header.outputs.map(place);
    const rank = (shape: readonly number[]): number => shape.length;
    const axes = header.types.reduce((most, [, shape]) => Math.max(most, rank(shape)), 1);
    const sizes = place(8 * (1 + axes * (inputs.length + outputs.length)));
    this.check(calls.page_open(weights, this.weights.length));
    this.check(calls.page_sizes_of(dims, sizes));
    const arena = place(Number(new DataView(memory.buffer).getBigInt64(sizes, true)));
    const asked = place(this.fresh.length), into = pointers(inputs), out = pointers(outputs);
    // From here on the memory does not grow, so that views on it stay.
    this.running = {
      calls, asked,
      places: [...inputs, ...outputs, ...header.offsets.map((offset) => weights + offset)],
      inputs: header.inputs.map((one, at) => arrayOf(one.dtype, memory.buffer, inputs[at]!, sizeOf(one.shape))),
      run: () => calls.page_some(dims, weights, into, out, arena, header.step, asked),
    };
    this.changed();
  }

  private check(code: number): void {
    if (code) throw new Error(FAULTS[code] ?? `What this page computes has failed (${code}).`);
  }

  // -- inputs --------------------------------------------------------------------------------------

  /** What an input is now. */
  input(at: number): Value {
    const { dtype, shape, first } = this.inputs[at]!, numbers = this.running?.inputs[at];
    return { dtype, shape, numbers: numbers ? decoded(dtype, numbers) : first };
  }

  /** Change numbers of an input, from one on. */
  set(at: number, from: number, numbers: ArrayLike<number>): void {
    const { dtype } = this.inputs[at]!, array = this.running?.inputs[at];
    if (!array) return;
    for (let k = 0; k < numbers.length; k++) encode(dtype, array, from + k, numbers[k]!);
    for (const launch of this.behind[at]!) {
      this.fresh[launch] = 0;
      this.stale.add(launch);
    }
    this.changed();
  }

  /** Listen to whether values may be others. */
  on(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  private changed(): void {
    for (const listener of [...this.listeners]) listener();
  }

  // -- values --------------------------------------------------------------------------------------

  /** Whether a node has a value here. */
  has(id: number): boolean {
    return this.index.has(id);
  }

  /** Work some values out, all in one go. */
  need(ids: Iterable<number>): void {
    const { running, header } = this;
    if (!running) return;
    const launches = new Set<number>();
    const todo = [...ids].flatMap((id) => (this.has(id) ? [header.places[this.index.get(id)!]!] : []));
    for (let place = todo.pop(); place !== undefined; place = todo.pop()) {
      const launch = this.maker.get(place);
      if (launch === undefined || this.fresh[launch] || launches.has(launch)) continue;
      launches.add(launch);
      todo.push(...header.reads[launch]!);
    }
    if (!launches.size) return;
    if (this.gpu) {
      for (const launch of launches) this.asked.add(launch);
      this.settling ??= this.settle(this.gpu, running);
      return;
    }
    const asked = new Uint8Array(running.calls.memory.buffer, running.asked, this.fresh.length).fill(0);
    for (const launch of launches) asked[launch] = 1;
    const began = performance.now();
    const code = running.run();
    this.spent += performance.now() - began;
    this.check(code);
    for (const launch of launches) this.fresh[launch] = 1;
  }

  // -- WebGPU --------------------------------------------------------------------------------------

  /** Why nothing of this page runs by WebGPU in any browser; empty if it may. */
  get why(): string {
    return this.header.gpu.why ?? "";
  }

  get isByGpu(): boolean {
    return this.gpu !== null;
  }

  /** Launch by WebGPU from now on, or by WebAssembly again. */
  async switched(toGpu: boolean): Promise<void> {
    const { running, header, gpu: before } = this;
    if (!running || toGpu === this.isByGpu) return;
    const gpu = toGpu ? await Gpu.start(header.gpu) : null, memory = running.calls.memory.buffer;
    this.gpu = null;
    await this.settling;
    before?.stop();
    // What is read and never made: the weights.
    running.places.forEach((begin, place) => this.maker.has(place) || gpu?.put(place, memory, begin));
    this.gpu = gpu;
    this.failure = "";
    this.fresh.fill(0);
    this.changed();
  }

  /** Wait until the values are those of the inputs: a GPU answers later. */
  async settled(): Promise<void> {
    while (this.settling) await this.settling;
  }

  /** Launch what is asked for until there is no more, and put the results where WebAssembly has its own. */
  private async settle(gpu: Gpu, { calls, places }: Running): Promise<void> {
    const { header, asked, stale, fresh } = this, memory = calls.memory.buffer;
    await null; // so that what draws asks for all of it first
    try {
      while (gpu === this.gpu) {
        const launches = [...asked].filter((launch) => !fresh[launch]).sort((a, b) => a - b);
        asked.clear();
        stale.clear();
        if (!launches.length) break;
        const began = performance.now();
        header.inputs.forEach((_, place) => gpu.put(place, memory, places[place]!));
        const isRight = await gpu.run(launches, launches.flatMap((launch) => header.makes[launch]!), (place, bytes) => new Uint8Array(memory).set(bytes, places[place]));
        if (gpu !== this.gpu) break;
        this.check(isRight ? 0 : 4);
        this.spent = performance.now() - began;
        for (const launch of launches) if (!stale.has(launch)) fresh[launch] = 1;
        this.changed();
      }
    } catch (error) {
      // WebAssembly goes on; if it is the inputs that are wrong, it says so itself.
      this.failure = (error as Error).message;
      this.gpu = null;
      gpu.stop();
      fresh.fill(0);
      this.changed();
    } finally {
      this.settling = null;
    }
  }

  /** The value of a node; null if the page has none. */
  value(id: number): Value | null {
    const at = this.index.get(id), { running, header } = this;
    if (at === undefined || !running) return null;
    this.need([id]);
    const [dtype, shape] = header.types[header.typed[at]!]!;
    const array = arrayOf(dtype, running.calls.memory.buffer, running.places[header.places[at]!]!, sizeOf(shape));
    return { dtype, shape, numbers: decoded(dtype, array) };
  }
}

/** How many numbers a shape has. */
export function sizeOf(shape: readonly number[]): number {
  return shape.reduce((all, one) => all * one, 1);
}

/** Draw at the next frame after a change, once whatever has changed; the result ends it. */
export function eachFrame(machine: Machine, draw: () => void): () => void {
  let frame = 0;
  const later = (): void => {
    frame ||= requestAnimationFrame(() => {
      frame = 0;
      draw();
    });
  };
  const stop = machine.on(later);
  return () => {
    stop();
    cancelAnimationFrame(frame);
  };
}
