// Where everything that is visible stands: frames opened in place, the rest pushed apart.
//
// The inside of each open box is placed alone, and then makes room in the frame around it. What did
// not change is the same object as in the scene before, so that it need not be drawn again.

import { Apart, NEAR } from "./apart";
import type { Places, View } from "../data/view";

/** What an open box has around what is in it; as in viz/sizes.py. */
export const TOP = 30, SIDE = 14, BOTTOM = 14;
const CELL = 600;
const JOG = 26;
type Point = [number, number];

export interface Rect {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

let made = 0;

/** The inside of frames that look alike, from its own upper left corner. */
export class Placement {
  /** What tells it from others. */
  readonly serial = made++;
  private cells: readonly Cell[] | null = null;

  constructor(
    readonly view: View,
    readonly layout: number,
    readonly isRoot: boolean,
    readonly width: number,
    readonly height: number,
    /** Of each thing: left, top, width, height. */
    readonly rects: Float32Array,
    /** How far to the right each port is. */
    readonly ports: Float32Array,
    /** Of all wires one after the other as they were sent, or each its own. */
    private readonly courses: Float32Array | readonly Float32Array[],
    /** The open boxes, by their place in the frame. */
    readonly inner: ReadonlyMap<number, Placement>,
  ) {}

  /** How many wires it has. */
  get wires(): number {
    return this.view.layout.wires[this.layout + 1]! - this.view.layout.wires[this.layout]!;
  }

  rect(place: number): Rect {
    const at = 4 * place, { rects } = this;
    return { x: rects[at]!, y: rects[at + 1]!, width: rects[at + 2]!, height: rects[at + 3]! };
  }

  /** The course of a wire, as it was sent: steps of 2 numbers (a line) or 6 (a curve), each behind their count. */
  course(place: number): Float32Array {
    const { courses } = this;
    return courses instanceof Float32Array ? courseOf(this.view, this.layout, courses, place) : courses[place]!;
  }

  /** The frame in parts that are about as large as what one sees of it. */
  get parts(): readonly Cell[] {
    return (this.cells ??= cells(this));
  }
}

/** A wire, or what of a long one lies in one part. */
export interface Piece {
  /** Its place in the frame. */
  readonly wire: number;
  readonly course: Float32Array;
  readonly isStart: boolean;
  readonly isEnd: boolean;
}

/** A part of a frame: what is drawn or left out together. */
export interface Cell {
  readonly left: number;
  readonly top: number;
  readonly right: number;
  readonly bottom: number;
  /** Places in the frame. */
  readonly things: readonly number[];
  readonly pieces: readonly Piece[];
}

/** A frame that is visible, and where. */
export interface Placed {
  readonly placement: Placement;
  readonly frame: number;
  readonly x: number;
  readonly y: number;
  readonly depth: number;
  /** From the lower border of what is in it to that of its box. */
  readonly below: number;
}

/** A picture of a view with some boxes open. */
export class Scene {
  readonly frames: readonly Placed[];
  readonly open: ReadonlySet<string>;
  private readonly byFrame = new Map<number, Placed>();

  constructor(
    readonly view: View,
    readonly root: Placement,
    open: ReadonlySet<string>,
  ) {
    const frames: Placed[] = [{ placement: root, frame: 0, x: 0, y: 0, depth: 0, below: 0 }];
    for (const outer of frames) {
      this.byFrame.set(outer.frame, outer);
      for (const [place, inner] of outer.placement.inner) {
        const frame = view.thing.opens[view.frame.things[outer.frame]! + place]!;
        const { x, y, width, height } = outer.placement.rect(place);
        frames.push({
          placement: inner, frame, depth: outer.depth + 1,
          x: outer.x + x + (width - inner.width) / 2, y: outer.y + y + TOP, below: height - TOP - inner.height,
        });
      }
    }
    this.frames = frames;
    this.open = open;
  }

  get width(): number {
    return this.root.width;
  }

  get height(): number {
    return this.root.height;
  }

  /** The things of a frame. */
  thingsIn(frame: number): number[] {
    const first = this.view.frame.things[frame]!;
    return Array.from({ length: this.view.frame.things[frame + 1]! - first }, (_, at) => first + at);
  }

  /** How many nodes and boxes stand there. */
  get count(): number {
    return this.frames.reduce((sum, { placement }) => sum + placement.rects.length / 4, 0);
  }

  placed(frame: number): Placed | undefined {
    return this.byFrame.get(frame);
  }

  isVisible(thing: number): boolean {
    return this.rect(thing) !== null;
  }

  isOpen(thing: number): boolean {
    return this.byFrame.has(this.view.thing.opens[thing]!);
  }

  /** Where a thing is, if it is visible; what these places lack has no size. */
  rect(thing: number): Rect | null {
    const { view } = this, frame = view.thing.frame[thing]!;
    const placed = this.byFrame.get(frame);
    if (!placed) return null;
    const { x, y, width, height } = placed.placement.rect(thing - view.frame.things[frame]!);
    return width ? { x: placed.x + x, y: placed.y + y, width, height } : null;
  }

  /** What stands for a row: its node, or the closed box that it is in; -1 where there is nothing. */
  standing(row: number): number {
    return this.seen(this.view.thingOf(row));
  }

  /** All that stands for a row: a scalar is in each op that reads it. */
  allStanding(row: number): readonly number[] {
    const things = this.view.thingsOf(row).map((thing) => this.seen(thing)).filter((thing) => thing >= 0);
    return things.length < 2 ? things : [...new Set(things)];
  }

  private seen(thing: number): number {
    while (thing >= 0 && !this.isVisible(thing)) thing = this.view.boxOf(thing);
    return thing;
  }

  /** The innermost thing at a point; -1 where there is none. */
  hit(x: number, y: number): number {
    let found = -1;
    let at: Placed | undefined = this.frames[0];
    while (at) {
      const placed: Placed = at;
      at = undefined;
      const left = x - placed.x, top = y - placed.y, first = this.view.frame.things[placed.frame]!;
      for (const cell of placed.placement.parts) {
        if (left < cell.left || left > cell.right || top < cell.top || top > cell.bottom) continue;
        for (const place of cell.things) {
          const rect = placed.placement.rect(place);
          if (left < rect.x || left > rect.x + rect.width || top < rect.y || top > rect.y + rect.height) continue;
          found = first + place;
          at = this.byFrame.get(this.view.thing.opens[found]!);
        }
      }
    }
    return found;
  }

  /** All things that are within a rectangle, or reach into it. */
  within(area: Rect): number[] {
    const found: number[] = [];
    for (const { placement, frame, x, y } of this.frames) {
      const first = this.view.frame.things[frame]!;
      for (const cell of placement.parts) {
        if (!meets(cell, area, x, y)) continue;
        for (const place of cell.things) {
          const rect = placement.rect(place);
          if (x + rect.x <= area.x + area.width && x + rect.x + rect.width >= area.x &&
            y + rect.y <= area.y + area.height && y + rect.y + rect.height >= area.y) found.push(first + place);
        }
      }
    }
    return found;
  }
}

/** Whether a part of a frame that begins at a point reaches into a rectangle. */
export function meets(cell: Pick<Cell, "left" | "top" | "right" | "bottom">, area: Rect, x: number, y: number): boolean {
  return x + cell.left <= area.x + area.width && x + cell.right >= area.x &&
    y + cell.top <= area.y + area.height && y + cell.bottom >= area.y;
}

/** Place all that is visible when these boxes are open; what was placed before is the same object. */
export function sceneOf(view: View, open: ReadonlySet<string>, places: Places = "both"): Scene {
  let known = placements.get(view);
  if (!known || known.size > MOST) placements.set(view, (known = new Map()));
  return new Scene(view, place(view, 0, open, known, places), open);
}

const placements = new WeakMap<View, Map<string, Placement>>();
const MOST = 3000;

// -- one frame ------------------------------------------------------------------------------------

function place(view: View, frame: number, open: ReadonlySet<string>, known: Map<string, Placement>, places: Places): Placement {
  const first = view.frame.things[frame]!, layout = view.sides[places][frame]!, { rect, things } = view.layout;
  const isThere = (thing: number): boolean => rect[4 * (things[layout]! + thing - first) + 2]! > 0;
  const inner = new Map<number, Placement>();
  let key = `${layout} ${frame > 0}`;
  if (open.size)
    for (const thing of view.boxesIn(frame))
      if (open.has(view.box(thing)!.path) && isThere(thing)) {
        const one = place(view, view.thing.opens[thing]!, open, known, places);
        inner.set(thing - first, one);
        key += ` ${thing - first}:${one.serial}`;
      }
  // Frames with equal layouts may still have their wires at other ports of what is open in them.
  const ports = inner.size ? portsOf(view, frame, inner) : null;
  if (ports) key += ` ${ports.join()}`;
  let found = known.get(key);
  if (!found) {
    const { rects, ports: at, courses, width, height } = sent(view, layout);
    found = ports
      ? opened(view, frame, layout, inner, ports)
      : new Placement(view, layout, !frame, width, height, rects, at, courses, inner);
    known.set(key, found);
  }
  return found;
}

/** A layout as it was sent. */
function sent(view: View, layout: number) {
  const { things, ports, wires, courses, rect, port, course, size } = view.layout;
  return {
    rects: rect.subarray(4 * things[layout]!, 4 * things[layout + 1]!),
    ports: port.subarray(ports[layout]!, ports[layout + 1]!),
    courses: course.subarray(courses[wires[layout]!]!, courses[wires[layout + 1]!]!),
    width: size[2 * layout]!, height: size[2 * layout + 1]!,
  };
}

function courseOf(view: View, layout: number, courses: Float32Array, place: number): Float32Array {
  const { wires, courses: at } = view.layout;
  const first = wires[layout]!, base = at[first]!;
  return courses.subarray(at[first + place]! - base, at[first + place + 1]! - base);
}

/** Of each wire of a frame the port where it begins and the one where it ends, in what is open; -1 elsewhere. */
function portsOf(view: View, frame: number, inner: ReadonlyMap<number, Placement>): Int32Array {
  const { source, target, carried, status } = view.wire;
  const firstThing = view.frame.things[frame]!, first = view.frame.wires[frame]!;
  const found = new Int32Array(2 * (view.frame.wires[frame + 1]! - first)).fill(-1);
  for (let at = 0; at < found.length; at++) {
    const wire = first + (at >> 1), end = at & 1 ? target[wire]! : source[wire]!;
    // What leaves a box does so below, but for the few that go up: those have a port at one side alone.
    if (inner.has(end)) found[at] = portOf(view, view.thing.opens[firstThing + end]!, carried[wire]!, status[wire]!, at & 1 ? 0 : 1);
  }
  return found;
}

function opened(view: View, frame: number, layout: number, inner: ReadonlyMap<number, Placement>, chosen: Int32Array): Placement {
  const old = sent(view, layout);
  const rects = old.rects.slice();
  for (const [at, { width, height }] of inner) {
    rects[4 * at + 2] = Math.max(rects[4 * at + 2]!, width + 2 * SIDE);
    rects[4 * at + 3] = Math.max(rects[4 * at + 3]!, height + TOP + BOTTOM);
  }
  const apart = new Apart(old.rects, rects, [...inner.keys()]);
  const courses: Float32Array[] = [], { source, target } = view.wire, first = view.frame.wires[frame]!, firstPort = view.frame.ports[frame]!;
  for (let at = 0; 2 * at < chosen.length; at++) courses.push(apart.course(courseOf(view, layout, old.courses, at)));
  const ports = old.ports.map((x, at) => apart.x(x, view.port.side[firstPort + at] ? old.height : 0));
  for (let at = 0; at < rects.length; at += 4) {
    if (!rects[at + 2]) continue;
    const x = old.rects[at]! + old.rects[at + 2]! / 2, y = old.rects[at + 1]! + old.rects[at + 3]! / 2;
    rects[at] = apart.x(x, y) - rects[at + 2]! / 2;
    rects[at + 1] = apart.y(y) - rects[at + 3]! / 2;
  }
  // What was pushed out on the left is taken in again.
  const { left, right } = extent(rects, courses, ports), by = Math.min(0, left);
  for (let at = 0; at < rects.length; at += 4) rects[at]! -= by;
  for (let at = 0; at < ports.length; at++) ports[at]! -= by;
  for (const course of courses) eachX(course, (place) => (course[place]! -= by));
  const placement = new Placement(view, layout, !frame, Math.max(right, old.width) - by, apart.y(old.height), rects, ports, courses, inner);
  courses.forEach((course, at) => {
    const from = courseOf(view, layout, old.courses, at), last = from.length;
    if (last < 3) return;
    const start = ended(source[first + at]!, chosen[2 * at]!, from[1]!, from[2]!, old.rects, placement);
    const end = ended(target[first + at]!, chosen[2 * at + 1]!, from[last - 2]!, from[last - 1]!, old.rects, placement);
    if (start || end) courses[at] = joined(course, start, end);
  });
  return placement;
}

/** Call for the place of each x in a course. */
function eachX(course: Float32Array, call: (place: number) => void): void {
  for (let at = 0; at < course.length; at += course[at]! + 1) for (let x = at + 1; x <= at + course[at]!; x += 2) call(x);
}

/** How far to the left and to the right anything reaches. */
function extent(rects: Float32Array, courses: readonly Float32Array[], ports: Float32Array): { left: number; right: number } {
  let left = Infinity, right = -Infinity;
  const meet = (x: number): void => {
    left = Math.min(left, x);
    right = Math.max(right, x);
  };
  for (let at = 0; at < rects.length; at += 4) {
    meet(rects[at]!);
    meet(rects[at]! + rects[at + 2]!);
  }
  for (const course of courses) eachX(course, (place) => meet(course[place]!));
  ports.forEach(meet);
  return { left, right };
}

/** Where a wire begins or ends now: at its thing, or above the port that it goes on from. */
function ended(end: number, port: number, x: number, y: number, old: Float32Array, now: Placement): Point | null {
  if (end < 0) return null;
  const rect = now.rect(end), was = 4 * end;
  const isTop = Math.abs(y - old[was + 1]!) < Math.abs(y - old[was + 1]! - old[was + 3]!);
  const edge = isTop ? rect.y : rect.y + rect.height;
  const inner = now.inner.get(end);
  if (!inner || port < 0) return [x + rect.x + rect.width / 2 - old[was]! - old[was + 2]! / 2, edge];
  return [rect.x + (rect.width - inner.width) / 2 + inner.ports[port]!, edge];
}

/** The port of a frame that carries a value, on that side and of that status where there are several; -1 for none. */
export function portOf(view: View, frame: number, row: number, status: number, side: number): number {
  const first = view.frame.ports[frame]!, { port } = view;
  let found = -1, best = -1;
  for (let at = first; at < view.frame.ports[frame + 1]!; at++) {
    if (port.row[at] !== row) continue;
    const score = Number(port.side[at] === side) * 2 + Number(port.status[at] === status);
    if (score > best) [found, best] = [at - first, score];
  }
  return found;
}

/** Have a course begin and end where it should: right beside its things it goes over to its old way. */
function joined(course: Float32Array, start: Point | null, end: Point | null): Float32Array {
  let steps: number[][] = [];
  for (let at = 0; at < course.length; at += course[at]! + 1) steps.push([...course.subarray(at + 1, at + course[at]! + 1)]);
  if (start) bend(steps, start);
  if (end) {
    steps = turned(steps);
    bend(steps, end);
    steps = turned(steps);
  }
  return Float32Array.from(steps.flatMap((step) => [step.length, ...step]));
}

/** A course from its end to its beginning. */
function turned(steps: readonly number[][]): number[][] {
  const found = [steps.at(-1)!.slice(-2)];
  for (let at = steps.length - 1; at > 0; at--) {
    const step = steps[at]!, to = steps[at - 1]!.slice(-2);
    found.push(step.length === 2 ? to : [...step.slice(2, 4), ...step.slice(0, 2), ...to]);
  }
  return found;
}

/** Have a course begin elsewhere. What goes straight from there moves along, if that is short; else there is a bend. */
function bend(steps: number[][], start: Point): void {
  const [x, y] = start, old = steps[0]![0]!;
  steps[0] = start;
  if (Math.abs(x - old) < NEAR) return;
  for (let at = 1; at < steps.length; at++) {
    const step = steps[at]!, isStraight = Math.abs(step[0]! - old) < NEAR;
    if (!isStraight) return;
    const away = step[1]! - y;
    if (step.length === 2 && Math.abs(away) > JOG) {
      const level = y + JOG * Math.sign(away), from = steps[at - 1]!.at(-1)!, middle = (from + level) / 2;
      steps.splice(at, 0, [x, middle, old, middle, old, level]);
      return;
    }
    step[0] = x;
    if (step.length === 6) return;
  }
}

// -- parts ----------------------------------------------------------------------------------------

const FEW = 90;

interface Growing {
  left: number;
  top: number;
  right: number;
  bottom: number;
  readonly things: number[];
  readonly pieces: Piece[];
}

function cells(placement: Placement): Cell[] {
  const { rects, wires, width, height } = placement, things = rects.length / 4;
  // Cells of about as many things each, however crowded the frame is; what is large is cut in any case.
  const size = Math.max(CELL, Math.min(4 * CELL, Math.sqrt((width * height * FEW) / (things + wires / 3 + 1))));
  const found = new Map<string, Growing>();
  const cell = (x: number, y: number): Growing => {
    const key = `${Math.floor(x / size)}/${Math.floor(y / size)}`;
    let one = found.get(key);
    if (!one) found.set(key, (one = { left: Infinity, top: Infinity, right: -Infinity, bottom: -Infinity, things: [], pieces: [] }));
    return one;
  };
  // The first one is there in any case: it has the title.
  const first = cell(0, 0);
  if (!placement.isRoot) widen(first, 0, -TOP, width, 0);
  for (let at = 0; at < things; at++) {
    const { x, y, width, height } = placement.rect(at);
    if (!width) continue;
    const one = cell(x + width / 2, y + height / 2);
    one.things.push(at);
    widen(one, x, y, x + width, y + height);
  }
  for (let wire = 0; wire < wires; wire++) {
    const course = placement.course(wire);
    if (course.length < 3) continue;
    for (const piece of cut(wire, course, size)) {
      const steps = piece.course, last = steps.length;
      const one = cell((steps[1]! + steps[last - 2]!) / 2, (steps[2]! + steps[last - 1]!) / 2);
      one.pieces.push(piece);
      for (let at = 0; at < last; at += steps[at]! + 1)
        for (let x = at + 1; x < at + steps[at]! + 1; x += 2) widen(one, steps[x]!, steps[x + 1]!, steps[x]!, steps[x + 1]!);
    }
  }
  return [...found.values()];
}

/** A long course in pieces, so that no part reaches across the whole picture; straight lines are cut where they are long. */
function cut(wire: number, course: Float32Array, size: number): Piece[] {
  const x = course[1]!, y = course[2]!, last = course.length;
  if (Math.abs(course[last - 2]! - x) < size && Math.abs(course[last - 1]! - y) < size) return [{ wire, course, isStart: true, isEnd: true }];
  const found: Piece[] = [];
  let piece = [2, x, y], from = [x, y] as Point, begun = y;
  const end = (isEnd: boolean) => {
    found.push({ wire, course: Float32Array.from(piece), isStart: !found.length, isEnd });
    piece = [2, ...from];
    begun = from[1];
  };
  for (let at = 3; at < last; at += course[at]! + 1) {
    const step = course.subarray(at, at + course[at]! + 1), toX = step[step.length - 2]!, toY = step[step.length - 1]!;
    if (step[0] === 2 && Math.abs(toX - from[0]) < NEAR)
      while (Math.abs(toY - from[1]) > 1.5 * size) {
        from = [toX, from[1] + size * Math.sign(toY - from[1])];
        piece.push(2, ...from);
        end(false);
      }
    piece.push(...step);
    from = [toX, toY];
    if (Math.abs(toY - begun) > size && at + step.length < last) end(false);
  }
  end(true);
  return found;
}

function widen(one: Growing, left: number, top: number, right: number, bottom: number): void {
  one.left = Math.min(one.left, left);
  one.top = Math.min(one.top, top);
  one.right = Math.max(one.right, right);
  one.bottom = Math.max(one.bottom, bottom);
}
