// Numbers of all dtypes as they lie in memory, and what there is to say of many of them.

export type Numbers = Float64Array | Float32Array | BigInt64Array | BigUint64Array | Int32Array | Uint32Array | Int16Array | Uint16Array | Int8Array | Uint8Array;
type Kind = new (buffer: ArrayBufferLike, at: number, size: number) => Numbers;

const KINDS: Readonly<Record<string, Kind>> = {
  float64: Float64Array, float32: Float32Array, float16: Uint16Array, bfloat16: Uint16Array,
  int64: BigInt64Array, uint64: BigUint64Array, int32: Int32Array, uint32: Uint32Array,
  int16: Int16Array, uint16: Uint16Array, int8: Int8Array, uint8: Uint8Array, bool: Uint8Array,
};

/** Some bytes of a buffer as numbers of a dtype; 16-bit floats as their bits. */
export function arrayOf(dtype: string, buffer: ArrayBufferLike, at: number, size: number): Numbers {
  return new KINDS[dtype]!(buffer, at, size);
}

/** Numbers of a dtype as numbers of JavaScript's. */
export function decoded(dtype: string, array: Numbers): ArrayLike<number> {
  if (array instanceof BigInt64Array || array instanceof BigUint64Array) return Float64Array.from(array as BigInt64Array, Number);
  if (dtype === "bfloat16") return new Float32Array(Uint32Array.from(array, (bits) => bits << 16).buffer);
  if (dtype === "float16") return Float32Array.from(array, half);
  return array;
}

/** Write a number, rounded to what a dtype has. */
export function encode(dtype: string, array: Numbers, at: number, value: number): void {
  const whole = Math.round(value);
  if (array instanceof BigInt64Array || array instanceof BigUint64Array) array[at] = BigInt(whole);
  else if (dtype === "bfloat16") array[at] = rounded(new Uint32Array(new Float32Array([value]).buffer)[0]!);
  else if (dtype === "float16") array[at] = halfOf(value);
  else array[at] = dtype.startsWith("float") ? value : whole;
}

function rounded(bits: number): number {
  return (bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16;
}

function half(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1, exponent = (bits >> 10) & 31, rest = bits & 1023;
  if (exponent === 31) return rest ? NaN : sign * Infinity;
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + rest / 1024) : rest * 2 ** -24);
}

/** The bits of the nearest half; what slides has no need of ties. */
function halfOf(value: number): number {
  const sign = value < 0 ? 0x8000 : 0, size = Math.abs(value);
  if (Number.isNaN(size)) return 0x7e00;
  if (size >= 65520) return sign | 0x7c00;
  const exponent = Math.max(-14, Math.floor(Math.log2(size || 2 ** -24)));
  const rest = Math.round((size / 2 ** exponent) * 1024);
  return sign | (rest < 1024 ? rest : ((exponent + 15) << 10) + rest - 1024);
}

const BINS = 32;
/** The most numbers that are read; of more, some, evenly spaced. */
const READ = 1 << 20;

/** What there is to say of numbers, as Python says it. */
export function statistics(dtype: string, shape: readonly number[], numbers: ArrayLike<number>): Readonly<Record<string, unknown>> {
  const count = numbers.length, step = Math.max(1, Math.ceil(count / READ)), read = Math.ceil(count / step);
  let low = Infinity, high = -Infinity, total = 0, finite = 0, nan = 0, zeros = 0;
  for (let at = 0; at < count; at += step) {
    const value = numbers[at]!;
    if (value === 0) zeros++;
    if (Number.isFinite(value)) {
      finite++;
      total += value;
      if (value < low) low = value;
      if (value > high) high = value;
    } else if (Number.isNaN(value)) nan++;
  }
  const mean = finite ? total / finite : null, inf = read - finite - nan;
  const isWhole = !dtype.includes("float") && high - low < BINS;
  const many = isWhole ? high - low + 1 : BINS, first = isWhole ? low - 0.5 : low, width = isWhole ? 1 : (high - low) / BINS;
  const fits = finite > 0 && width > 0 && Number.isFinite(width) && low + width > low;
  const bins: number[] = fits ? new Array<number>(many).fill(0) : finite ? [finite] : [];
  let squares = 0;
  for (let at = 0; at < count; at += step) {
    const value = numbers[at]!;
    if (!Number.isFinite(value)) continue;
    squares += (value - mean!) ** 2;
    if (fits) bins[Math.min(many - 1, Math.floor((value - first) / width))]!++;
  }
  const edges = fits ? Array.from({ length: many + 1 }, (_, at) => first + at * width) : finite ? [low, high] : [];
  const std = finite ? Math.sqrt(squares / finite) : null;
  const sized = `${dtype}(${shape.join(", ")}${shape.length === 1 ? "," : ""})`;
  const said = [
    finite > 0 && `${four(low)} to ${four(high)}`,
    mean !== null && `mean ${four(mean)} ± ${four(std!)}`,
    zeros > 0 && `${zeros.toLocaleString("en")} zeros`,
    nan > 0 && `${nan.toLocaleString("en")} NaN`,
    inf > 0 && `${inf.toLocaleString("en")} infinite`,
  ].filter(Boolean);
  const of = count === 1 ? "1 number" : `${step > 1 ? `${read.toLocaleString("en")} of ` : ""}${count.toLocaleString("en")} numbers`;
  const text = count ? `${of}, ${sized}: ${said.join(", ")}` : `${sized} has no numbers`;
  return { count, min: finite ? low : null, max: finite ? high : null, mean, std, nan, inf, zeros, bins, edges, sampled: step > 1, text };
}

function four(value: number): string {
  return String(Number(value.toPrecision(4)));
}
