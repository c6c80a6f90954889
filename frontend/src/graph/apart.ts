// How things make room for boxes that open among them: those in the same row step aside, all go down.
//
// What stands in other rows stays where it is, so that a picture gets no wider than its widest row. A
// wire that runs down beside an open box goes around it.

/** How far above and below its things a row reaches: there wires already run straight to them. */
const ABOVE = 18, BELOW = 2;
/** More room for wires that go far to the side, at most. */
const LEAN = 0.07, MOST = 44;
/** What is nearer than this is at the same place. */
export const NEAR = 0.3;

interface Row {
  readonly top: number;
  readonly bottom: number;
  /** Where its things and wires are now; null where nothing in it opened. */
  readonly x: ((at: number) => number) | null;
}

export class Apart {
  private readonly rows: readonly Row[];
  /** Where a height is now. */
  readonly y: (at: number) => number;

  /** From rectangles as they were sent, and how large they are now; both left, top, width, height each. */
  constructor(was: Float32Array, is: Float32Array, opened: readonly number[]) {
    const down: Interval[] = [], across = new Map<number, Interval[]>(), of = rowsOf(was), rows: Row[] = [];
    for (const at of opened) {
      const one = 4 * at, x = was[one]!, y = was[one + 1]!, w = was[one + 2]!, h = was[one + 3]!;
      down.push([y, y + h, is[one + 3]! / h]);
      const row = of.findIndex(({ top, bottom }) => y + h / 2 >= top && y + h / 2 <= bottom);
      across.set(row, [...(across.get(row) ?? []), [x, x + w, is[one + 2]! / w]]);
    }
    of.forEach(({ top, bottom }, at) => {
      const intervals = across.get(at);
      if (!intervals) return rows.push({ top, bottom, x: null });
      const x = stretched(intervals), middles = intervals.map(([from, to]) => (from + to) / 2);
      const by = middles.reduce((sum, one) => sum + one - x(one), 0) / middles.length;
      rows.push({ top: top - ABOVE, bottom: bottom + BELOW, x: (one) => x(one) + by });
      // Wires that step aside lean in the room above and below.
      const more = Math.min(MOST, LEAN * intervals.reduce((sum, [from, to, slope]) => sum + (to - from) * (slope - 1), 0));
      const before = of[at - 1]?.bottom, after = of[at + 1]?.top;
      for (const [from, to] of [[before, top - ABOVE], [bottom + BELOW, after === undefined ? undefined : after - ABOVE]])
        if (from !== undefined && to !== undefined && to - from > 1) down.push([from, to, 1 + more / (to - from)]);
    });
    this.rows = rows;
    this.y = stretched(down);
  }

  private rowAt(y: number): Row | undefined {
    return this.rows.find(({ top, bottom, x }) => x && y >= top - NEAR && y <= bottom + NEAR);
  }

  /** Where something that was at a point is now, from left to right. */
  x(x: number, y: number): number {
    return this.rowAt(y)?.x?.(x) ?? x;
  }

  /** A course with all of its points where they are now. */
  course(from: Float32Array): Float32Array {
    const found: number[] = [];
    let x = 0, y = 0;
    for (let at = 0; at < from.length; ) {
      const count = from[at++]!, toX = from[at + count - 2]!, toY = from[at + count - 1]!;
      const isStart = !found.length, isDown = count === 2 && !isStart && Math.abs(toX - x) < NEAR;
      if (isDown) this.straight(found, toX, y, toY);
      else if (count === 2) found.push(2, this.x(toX, toY), this.y(toY));
      else {
        // A curve leaves and arrives upright.
        const middle = this.y(from[at + 1]!);
        found.push(6, this.x(x, y), middle, this.x(toX, toY), middle, this.x(toX, toY), this.y(toY));
      }
      [x, y] = [toX, toY];
      at += count;
    }
    return Float32Array.from(found);
  }

  /** A line straight up or down: around what it was beside. */
  private straight(found: number[], x: number, from: number, to: number): void {
    const isDown = to > from, [low, high] = isDown ? [from, to] : [to, from];
    const met = this.rows.filter(({ top, bottom, x: aside }) => aside && top < high && bottom > low && Math.abs(aside(x) - x) >= NEAR);
    if (!isDown) met.reverse();
    for (const { top, bottom, x: aside } of met) {
      const [enter, leave] = isDown ? [top, bottom] : [bottom, top];
      this.step(found, aside!(x), enter, from, to);
      const last = Math.max(low, Math.min(high, leave));
      found.push(2, aside!(x), this.y(last));
    }
    this.step(found, this.x(x, to), to, from, to);
    found.push(2, this.x(x, to), this.y(to));
  }

  /** Go over to another place from left to right, right before a height. */
  private step(found: number[], x: number, at: number, from: number, to: number): void {
    const before = found[found.length - 2]!, top = found[found.length - 1]!;
    const y = this.y(Math.max(Math.min(from, to), Math.min(Math.max(from, to), at)));
    if (Math.abs(before - x) < NEAR) return;
    const room = y - top, reach = Math.sign(room) * Math.min(Math.abs(room), JOG), start = y - reach, middle = y - reach / 2;
    if (Math.abs(start - top) >= NEAR) found.push(2, before, start);
    found.push(6, before, middle, x, middle, x, y);
  }
}

/** Over how many pixels a wire goes to the side, at most. */
const JOG = 70;

/** Things in rows: those that are beside each other, from above. */
function rowsOf(rects: Float32Array): { readonly top: number; readonly bottom: number }[] {
  const found: { top: number; bottom: number }[] = [];
  const order = Array.from({ length: rects.length / 4 }, (_, at) => 4 * at).sort((one, other) => rects[one + 1]! - rects[other + 1]!);
  for (const at of order) {
    const top = rects[at + 1]!, bottom = top + rects[at + 3]!, last = found.at(-1);
    if (last && top < last.bottom) last.bottom = Math.max(last.bottom, bottom);
    else found.push({ top, bottom });
  }
  return found;
}

type Interval = readonly [from: number, to: number, slope: number];

/** A monotone map that stretches intervals; where they overlap, by the larger slope. */
function stretched(intervals: readonly Interval[]): (at: number) => number {
  const breaks = [...new Set(intervals.flatMap(([from, to]) => [from, to]))].sort((a, b) => a - b);
  const slopes = breaks.map(() => 1);
  const place = new Map(breaks.map((at, index) => [at, index]));
  for (const [from, to, slope] of intervals)
    for (let at = place.get(from)!; breaks[at]! < to; at++) slopes[at] = Math.max(slopes[at]!, slope);
  const values: number[] = [];
  breaks.forEach((at, index) => values.push(index ? values[index - 1]! + (at - breaks[index - 1]!) * slopes[index - 1]! : at));
  return (at) => {
    let low = 0, high = breaks.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (breaks[middle]! <= at) low = middle + 1;
      else high = middle;
    }
    return low ? values[low - 1]! + (at - breaks[low - 1]!) * slopes[low - 1]! : at;
  };
}
