// The bytes that Python sends: a header in JSON, then typed columns; what is damaged is refused.

export interface Arrays {
  u8: Uint8Array;
  i32: Int32Array;
  u32: Uint32Array;
  f32: Float32Array;
  f64: Float64Array;
}

export type Column = Arrays[keyof Arrays];

export const SCHEMA = 1;
const MAKE = { u8: Uint8Array, i32: Int32Array, u32: Uint32Array, f32: Float32Array, f64: Float64Array };
const MAGIC = [0x4c, 0x4c, 0x41, 0x42];

/** Bytes that are no bundle of ours; the message is a sentence for the reader. */
export class BundleError extends Error {
  override name = "BundleError";
}

type Entry = readonly [keyof Arrays, number, number];

export interface Header {
  readonly schema: number;
  readonly columns: Readonly<Record<string, Entry>>;
}

/** A header and the columns that it names. */
export class Columns<H extends Header = Header> {
  constructor(
    readonly header: H,
    private readonly data: Uint8Array,
  ) {}

  has(name: string): boolean {
    return Object.hasOwn(this.header.columns, name);
  }

  column(name: string): Column {
    const entry = this.has(name) ? this.header.columns[name] : undefined;
    if (!entry) throw damaged(`the column ${name} is missing`);
    const [kind, offset, length] = entry;
    const Made = Object.hasOwn(MAKE, kind) ? MAKE[kind] : undefined;
    const isCount = (n: number) => Number.isInteger(n) && n >= 0;
    if (!Made || !isCount(offset) || !isCount(length) || offset % 8)
      throw damaged(`the column ${name} is ${JSON.stringify(entry)}`);
    if (offset + length * Made.BYTES_PER_ELEMENT > this.data.length)
      throw damaged(`the column ${name} ends behind the last byte`);
    return new Made(this.data.buffer as ArrayBuffer, this.data.byteOffset + offset, length);
  }

  /** A column that has to be of one type. */
  typed<K extends keyof Arrays>(name: string, kind: K): Arrays[K] {
    const found = this.column(name);
    if (!(found instanceof MAKE[kind])) throw damaged(`the column ${name} is not ${kind}`);
    return found as Arrays[K];
  }
}

/** Columns, some of which say texts by their places among these. */
export interface Texts extends Columns {
  readonly strings: readonly string[];
}

export function damaged(what: string): BundleError {
  return new BundleError(`The data of this picture is damaged: ${what}.`);
}

/** The bytes themselves, also where they are packed with zlib. */
export async function unpacked(bytes: ArrayBuffer | ArrayBufferView): Promise<Uint8Array> {
  const given = ArrayBuffer.isView(bytes)
    ? new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    : new Uint8Array(bytes);
  return given[0] === 0x78 ? inflated(given) : given;
}

async function inflated(bytes: Uint8Array): Promise<Uint8Array> {
  const stream = new DecompressionStream("deflate");
  const writer = stream.writable.getWriter();
  // What goes wrong here goes wrong in the reading as well.
  const written = writer.write(bytes as BufferSource).then(() => writer.close());
  written.catch(() => undefined);
  try {
    return new Uint8Array(await new Response(stream.readable).arrayBuffer());
  } catch {
    throw damaged("it cannot be unpacked");
  }
}

/** Read a header and its columns alone, whatever they are for. */
export function columns<H extends Header>(bytes: Uint8Array): Columns<H> {
  const { header, data } = parts<H>(bytes);
  return new Columns(header, data);
}

export function parts<H extends Header>(bytes: Uint8Array): { header: H; data: Uint8Array } {
  if (bytes.length < 8 || MAGIC.some((byte, at) => bytes[at] !== byte))
    throw new BundleError("This is not the data of a picture: it does not begin with LLAB.");
  const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(4, true);
  if (8 + length > bytes.length) throw damaged("it ends within its header");
  let header: H | null;
  try {
    header = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes.subarray(8, 8 + length))) as H | null;
  } catch {
    throw damaged("its header cannot be read");
  }
  if (header?.schema !== SCHEMA)
    throw new BundleError(
      `This data has schema ${header?.schema}, and the script in this page reads ${SCHEMA}: ` +
        "use the same version of luminal_lab for both.",
    );
  if (typeof header.columns !== "object" || !header.columns) throw damaged("its header lacks parts");
  let data = bytes.subarray(8 + length);
  // Views on columns need a place that their type allows.
  if (data.byteOffset % 8) data = data.slice();
  return { header, data };
}
