// The outlines of things: each kind has one of its own, as viz/shapes.py draws them.

const LEAN = 7;
const known = new Map<string, string>();

/** What a kind is in words. */
export const WORDS: Readonly<Record<string, string>> = {
  source: "made from nothing", reduce: "reduction", call: "call of a region", kernel: "kernel of the user's",
  launch: "launch of a kernel", host: "call of the host", sent: "sent between workers", class: "class: any of its nodes",
};

/**
 * The data of a path: an outline, and the lines in it that tell its kind. A transform for each thing
 * would cost browsers much more than places within the data do.
 */
export function outline(kind: string, x: number, y: number, width: number, height: number): string {
  const w = tenth(width), h = tenth(height), key = `${kind} ${w} ${h}`;
  let found = known.get(key);
  if (found === undefined) {
    if (known.size > 4000) known.clear();
    known.set(key, (found = drawn(kind, w, h)));
  }
  return `M${tenth(x)} ${tenth(y)}${found}`;
}

/** From the upper left corner on, in steps. */
function drawn(kind: string, w: number, h: number): string {
  const line = (...steps: number[]) => `l${steps.map(tenth).join(" ")}`;
  switch (kind) {
    case "input":
    case "parameter":
      return `m${LEAN} 0${line(w - LEAN, 0, -LEAN, h, LEAN - w, 0)}z${kind === "parameter" ? `m5 0${line(-LEAN, h)}` : ""}`;
    case "class":
      return round(w, h, h / 2);
    case "constant":
      return round(w, h, Math.min(9, h / 2));
    case "source":
      return `m${LEAN} 0${line(w - 2 * LEAN, 0, LEAN, h / 2, -LEAN, h / 2, 2 * LEAN - w, 0, -LEAN, -h / 2)}z`;
    case "reduce":
      return `${line(w, 0, -LEAN, h, 2 * LEAN - w, 0)}z`;
    case "call":
      return `${round(w, h, 2)}m3 0v${h}m${tenth(w - 10)} ${-h}v${h}`;
    case "kernel":
    case "launch":
      return `m6 0${line(w - 12, 0, 6, 6, 0, h - 12, -6, 6, 12 - w, 0, -6, -6, 0, 12 - h)}z${kind === "kernel" ? `m0 3h${tenth(w - 12)}` : ""}`;
    case "host":
      return `${line(w - 8, 0, 8, 8, 0, h - 8, -w, 0)}zm${tenth(w - 8)} 0v8h8`;
    case "sent":
      return `${round(w, h, 2)}m0 3h${tenth(w - 4)}m${tenth(4 - w)} ${tenth(h - 6)}h${tenth(w - 4)}`;
    default:
      return round(w, h, 5);
  }
}

function round(w: number, h: number, r: number): string {
  const arc = (x: number, y: number) => `a${r} ${r} 0 0 1 ${x} ${y}`;
  const across = tenth(w - 2 * r), down = tenth(h - 2 * r);
  return `m${r} 0h${across}${arc(r, r)}v${down}${arc(-r, r)}h${-across}${arc(-r, -r)}v${-down}${arc(r, -r)}z`;
}

/** A number as paths have it: tenths. */
export function tenth(value: number): number {
  return Math.round(value * 10) / 10;
}

/** A course as the data of a path. What came to lean by opening a box is drawn as a curve. */
export function courseData(course: Float32Array): string {
  let data = "", x = 0, y = 0;
  for (let at = 0; at < course.length; ) {
    const count = course[at++]!;
    const toX = course[at + count - 2]!, toY = course[at + count - 1]!;
    if (!data) data = `M${tenth(toX)} ${tenth(toY)}`;
    else if (count === 6)
      data += `C${tenth(course[at]!)} ${tenth(course[at + 1]!)} ${tenth(course[at + 2]!)} ${tenth(course[at + 3]!)} ${tenth(toX)} ${tenth(toY)}`;
    else if (Math.abs(toX - x) < 0.3) data += `V${tenth(toY)}`;
    else if (Math.abs(toY - y) < 4) data += `L${tenth(toX)} ${tenth(toY)}`;
    else {
      const middle = tenth((y + toY) / 2);
      data += `C${tenth(x)} ${middle} ${tenth(toX)} ${middle} ${tenth(toX)} ${tenth(toY)}`;
    }
    [x, y] = [toX, toY];
    at += count;
  }
  return data;
}

/** The arrow at the end of a course. */
export function tip(course: Float32Array): string {
  const end = course.length, x = course[end - 2]!, y = course[end - 1]!;
  // The point before, or the last handle of a curve; between lies the count of a step.
  const isCurve = end > 7 && course[end - 7] === 6;
  let fromX = course[isCurve ? end - 4 : end - 5]!, fromY = course[isCurve ? end - 3 : end - 4]!;
  // A line that leans is drawn as a curve that ends upright.
  if (!isCurve && Math.abs(fromY - y) >= 4) fromX = x;
  const away = Math.hypot(x - fromX, y - fromY) || 1;
  const across = (x - fromX) / away, down = (y - fromY) / away;
  return `M${tenth(x)} ${tenth(y)}L${tenth(x - 7 * across + 3.5 * down)} ${tenth(y - 7 * down - 3.5 * across)}l${tenth(-7 * down)} ${tenth(7 * across)}z`;
}

/** A text with an ellipsis for its middle, if it is longer than so many characters. */
export function shortened(text: string, most: number): string {
  if (text.length <= most) return text;
  const end = (most - 1) >> 1;
  return `${text.slice(0, most - 1 - end)}…${text.slice(text.length - end)}`;
}
