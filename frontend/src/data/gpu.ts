// WebGPU in a page: the launches that it brings along in WGSL, on whatever adapter the browser has.

/** What a page brings along for WebGPU, or why it brings nothing. */
export interface Shaders {
  readonly why?: string;
  /** The texts of modules. */
  readonly modules: readonly string[];
  /** What each launch of the page launches here. */
  readonly launches: readonly (readonly Phase[])[];
  /** The bytes of each buffer: of the page's places, then of arrays that kernels work in. */
  readonly bytes: readonly number[];
}

type Phase = readonly [module: number, bound: readonly number[], numbers: readonly number[], x: number, y: number, copies: readonly (readonly [from: number, to: number])[], reports: number];

// What is used of WebGPU; TypeScript does not know it yet.
interface Buffer {
  readonly size: number;
  destroy(): void;
  mapAsync(mode: number): Promise<void>;
  getMappedRange(): ArrayBuffer;
  unmap(): void;
}
interface Pass {
  setPipeline(pipeline: Pipeline): void;
  setBindGroup(at: number, group: object): void;
  dispatchWorkgroups(x: number, y: number): void;
  end(): void;
}
interface Encoder {
  beginComputePass(): Pass;
  clearBuffer(buffer: Buffer): void;
  copyBufferToBuffer(from: Buffer, begin: number, to: Buffer, end: number, size: number): void;
  finish(): object;
}
interface Device {
  readonly queue: { writeBuffer(buffer: Buffer, at: number, data: BufferSource): void; submit(all: readonly object[]): void };
  createBuffer(how: { size: number; usage: number }): Buffer;
  createShaderModule(how: { code: string }): object;
  createBindGroupLayout(how: object): object;
  createPipelineLayout(how: object): object;
  createComputePipelineAsync(how: object): Promise<object>;
  createBindGroup(how: object): object;
  createCommandEncoder(): Encoder;
  pushErrorScope(filter: string): void;
  popErrorScope(): Promise<{ readonly message: string } | null>;
  destroy(): void;
}
interface Adapter {
  readonly limits: Readonly<Record<string, number>>;
  requestDevice(how: object): Promise<Device>;
}
type Pipeline = object;

const MAP_READ = 1, COPY_SRC = 4, COPY_DST = 8, UNIFORM = 64, STORAGE = 128, COMPUTE = 4;
/** Buffers are made of whole vectors of this many bytes. */
const WORD = 16;
/** The limits of the adapter that the device gets, rather than the usual ones. */
const WANTED = ["maxBufferSize", "maxStorageBufferBindingSize", "maxStorageBuffersPerShaderStage", "maxComputeWorkgroupStorageSize"];

function asked(): { requestAdapter(): Promise<Adapter | null> } | undefined {
  return (navigator as unknown as { gpu?: { requestAdapter(): Promise<Adapter | null> } }).gpu;
}

/** Whether this browser knows WebGPU; an adapter is another question. */
export function knowsGpu(): boolean {
  return asked() !== undefined;
}

const whole = (size: number): number => Math.max(1, Math.ceil(size / WORD)) * WORD;

/** An adapter's device, with a buffer for each value that it was asked for. */
export class Gpu {
  private readonly buffers = new Map<number, Buffer>();
  private readonly pipelines = new Map<number, Promise<readonly [pipeline: Pipeline, layout: object]>>();
  private readonly groups = new Map<Phase, object>();
  private readonly faults: Buffer;
  private back: Buffer | null = null;

  private constructor(
    private readonly device: Device,
    private readonly shaders: Shaders,
  ) {
    this.faults = device.createBuffer({ size: WORD, usage: STORAGE | COPY_SRC | COPY_DST });
  }

  static async start(shaders: Shaders): Promise<Gpu> {
    const adapter = await asked()?.requestAdapter();
    if (!adapter) throw new Error("this browser has no adapter for WebGPU");
    const requiredLimits = Object.fromEntries(WANTED.flatMap((name) => (adapter.limits[name] === undefined ? [] : [[name, adapter.limits[name]]])));
    return new Gpu(await adapter.requestDevice({ requiredLimits }), shaders);
  }

  stop(): void {
    this.device.destroy();
  }

  private buffer(at: number): Buffer {
    let buffer = this.buffers.get(at);
    if (!buffer) this.buffers.set(at, (buffer = this.device.createBuffer({ size: whole(this.shaders.bytes[at]!), usage: STORAGE | COPY_SRC | COPY_DST })));
    return buffer;
  }

  /** Copy a value from memory, which has some more bytes behind each. */
  put(at: number, memory: ArrayBufferLike, begin: number): void {
    const size = Math.ceil(this.shaders.bytes[at]! / 4) * 4, bytes = new Uint8Array(size);
    bytes.set(new Uint8Array(memory, begin, Math.min(size, memory.byteLength - begin)));
    if (size) this.device.queue.writeBuffer(this.buffer(at), 0, bytes);
  }

  private pipeline(at: number): Promise<readonly [Pipeline, object]> {
    let made = this.pipelines.get(at);
    if (!made) {
      const code = this.shaders.modules[at]!, storage = code.split("var<storage").length - 1, { device } = this;
      const entries = Array.from({ length: storage + 1 }, (_, binding) => ({ binding, visibility: COMPUTE, buffer: { type: binding < storage ? "storage" : "uniform" } }));
      const layout = device.createBindGroupLayout({ entries });
      made = device
        .createComputePipelineAsync({ layout: device.createPipelineLayout({ bindGroupLayouts: [layout] }), compute: { module: device.createShaderModule({ code }), entryPoint: "main" } })
        .then((pipeline) => [pipeline, layout] as const);
      this.pipelines.set(at, made);
    }
    return made;
  }

  private group(phase: Phase, layout: object): object {
    let group = this.groups.get(phase);
    if (!group) {
      const [, bound, numbers, , , , reports] = phase, { device } = this;
      const data = new Uint32Array(Math.ceil(numbers.length / 4) * 4);
      data.set(numbers.map((number) => number >>> 0));
      const uniform = device.createBuffer({ size: data.byteLength, usage: UNIFORM | COPY_DST });
      device.queue.writeBuffer(uniform, 0, data);
      const all = [...bound.map((at) => this.buffer(at)), ...(reports ? [this.faults] : []), uniform];
      group = device.createBindGroup({ layout, entries: all.map((buffer, binding) => ({ binding, resource: { buffer } })) });
      this.groups.set(phase, group);
    }
    return group;
  }

  /** Run launches in order, and hand over what they made; false if an index was out of range. */
  async run(launches: readonly number[], made: Iterable<number>, take: (at: number, bytes: Uint8Array) => void): Promise<boolean> {
    const { device, shaders } = this, phases = launches.flatMap((launch) => shaders.launches[launch]!);
    for (const filter of ["out-of-memory", "validation"]) device.pushErrorScope(filter);
    let refused: (string | undefined)[] = [], failed: unknown = null, isRight = true;
    try {
      const ready = await Promise.all(phases.map(([module]) => this.pipeline(module)));
      const encoder = device.createCommandEncoder(), wanted = [...made];
      encoder.clearBuffer(this.faults);
      phases.forEach((phase, at) => {
        const [, , , x, y, copies] = phase, [pipeline, layout] = ready[at]!;
        for (const [from, to] of copies) encoder.copyBufferToBuffer(this.buffer(from), 0, this.buffer(to), 0, whole(shaders.bytes[from]!));
        const pass = encoder.beginComputePass();
        pass.setPipeline(pipeline);
        pass.setBindGroup(0, this.group(phase, layout));
        pass.dispatchWorkgroups(x, y);
        pass.end();
      });
      const size = wanted.reduce((all, at) => all + whole(shaders.bytes[at]!), WORD);
      if (!this.back || this.back.size < size) {
        this.back?.destroy();
        this.back = device.createBuffer({ size, usage: MAP_READ | COPY_DST });
      }
      const { back } = this;
      encoder.copyBufferToBuffer(this.faults, 0, back, 0, WORD);
      let begin = WORD;
      for (const at of wanted) {
        encoder.copyBufferToBuffer(this.buffer(at), 0, back, begin, whole(shaders.bytes[at]!));
        begin += whole(shaders.bytes[at]!);
      }
      device.queue.submit([encoder.finish()]);
      await back.mapAsync(1);
      const bytes = new Uint8Array(back.getMappedRange());
      isRight = new Uint32Array(bytes.buffer, 0, 1)[0] === 0;
      begin = WORD;
      for (const at of wanted) {
        take(at, bytes.subarray(begin, begin + shaders.bytes[at]!));
        begin += whole(shaders.bytes[at]!);
      }
      back.unmap();
    } catch (error) {
      failed = error;
    }
    refused = (await Promise.all([device.popErrorScope(), device.popErrorScope()])).map((error) => error?.message);
    const why = refused.find((message) => message) ?? (failed as Error | null)?.message;
    if (why) throw new Error(why.split("\n")[0]);
    return isRight;
  }
}
