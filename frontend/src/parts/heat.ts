// Numbers as colours on a canvas: what is negative in one colour, what is positive in another.

type Colour = readonly [number, number, number];

/** How numbers look: from the ground to a colour. */
export interface Ramp {
  readonly ground: Colour;
  readonly below: Colour;
  readonly above: Colour;
  readonly edge: Colour;
}

const KNOWN: Partial<Record<string, Ramp>> = {};

/** A ramp in the colours of the page around an element; `ink` draws with the colour of letters. */
export function rampOf(element: Element, ink = false): Ramp {
  const key = `${ink}`, known = KNOWN[key];
  if (known) return known;
  // Asking lays the page out: so it is asked once, for some frames.
  setTimeout(() => delete KNOWN[key], 1000);
  return (KNOWN[key] = ramp(element, ink));
}

function ramp(element: Element, ink: boolean): Ramp {
  const style = getComputedStyle(element);
  const colour = (name: string): Colour => {
    const bits = parseInt(style.getPropertyValue(`--ll-${name}`).trim().slice(1), 16) || 0x808080;
    return [bits >> 16, (bits >> 8) & 255, bits & 255];
  };
  return { ground: colour("ground"), below: colour("accent"), above: colour(ink ? "text" : "heat"), edge: colour("line") };
}

/** The largest finite size of some numbers; 1 if all are 0. */
export function scaleOf(numbers: ArrayLike<number>, step = 1): number {
  let most = 0;
  for (let at = 0; at < numbers.length; at += step) {
    const size = Math.abs(numbers[at]!);
    if (size > most && size < Infinity) most = size;
  }
  return most || 1;
}

/** The most rows and columns of a picture; of more, some, evenly spaced. */
const MOST = 128;

/** How many rows and columns a picture of a value has: the last axis goes across. */
export function sides(shape: readonly number[]): readonly [rows: number, columns: number] {
  const across = shape.at(-1) ?? 1;
  return [shape.slice(0, -1).reduce((all, one) => all * one, 1), across];
}

/** Paint numbers as a strip across a picture, framed, some lines high. */
export function strip({ data, width }: ImageData, top: number, high: number, numbers: ArrayLike<number>, ramp: Ramp, scale: number): void {
  const many = numbers.length, begin = 4 * width * (top + 1), last = width - 1;
  const put = (to: number, red: number, green: number, blue: number): void => {
    data[to] = red;
    data[to + 1] = green;
    data[to + 2] = blue;
    data[to + 3] = 255;
  };
  for (let x = 0; x < width; x++) {
    const [red, green, blue] = ramp.edge, frame = 4 * width * top + 4 * x;
    put(frame, red, green, blue);
    put(frame + 4 * width * (high - 1), red, green, blue);
    if (x === 0 || x === last || !many) put(begin + 4 * x, red, green, blue);
    else put(begin + 4 * x, ...mixed(ramp, numbers[Math.floor(((x - 1) * many) / (width - 2))]!, scale));
  }
  for (let line = 1; line < high - 2; line++) data.copyWithin(begin + 4 * width * line, begin, begin + 4 * width);
}

function mixed({ ground, above, below }: Ramp, value: number, scale: number): Colour {
  const side = value < 0 ? below : above, share = Number.isNaN(value) ? 1 : Math.min(1, Math.abs(value) / scale);
  return [ground[0] + (side[0] - ground[0]) * share, ground[1] + (side[1] - ground[1]) * share, ground[2] + (side[2] - ground[2]) * share];
}

/** Paint numbers, rows by columns, a pixel for each; the style of the canvas makes them larger. */
export function paint(canvas: HTMLCanvasElement, numbers: ArrayLike<number>, [rows, columns]: readonly [number, number], ramp: Ramp, scale: number, most = MOST): void {
  const high = Math.min(rows, most), wide = Math.min(columns, most);
  const context = canvas.getContext("2d");
  if (!context || !high || !wide) return;
  if (canvas.width !== wide) canvas.width = wide;
  if (canvas.height !== high) canvas.height = high;
  const image = context.createImageData(wide, high), { data } = image, { ground, above, below } = ramp;
  for (let y = 0, to = 0; y < high; y++) {
    const row = Math.floor((y * rows) / high) * columns;
    for (let x = 0; x < wide; x++, to += 4) {
      const value = numbers[row + Math.floor((x * columns) / wide)]!;
      const side = value < 0 ? below : above, share = Number.isNaN(value) ? 1 : Math.min(1, Math.abs(value) / scale);
      for (let k = 0; k < 3; k++) data[to + k] = ground[k]! + (side[k]! - ground[k]!) * share;
      data[to + 3] = 255;
    }
  }
  context.putImageData(image, 0, 0);
}
