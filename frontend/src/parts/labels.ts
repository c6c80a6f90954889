// Names in a plot: each stands where it covers neither a point nor another name, or is left to the pointer.

import { s } from "./dom";
import { textWidth } from "../data/metrics";

export interface Box {
  readonly left: number;
  readonly top: number;
  readonly right: number;
  readonly bottom: number;
}

export type Side = "right" | "left" | "above" | "below";

const GAP = 9;

const meet = (one: Box, other: Box): boolean => one.left < other.right && other.left < one.right && one.top < other.bottom && other.top < one.bottom;

export class Labels {
  private readonly taken: Box[] = [];
  private readonly done: { readonly x: number; readonly y: number; readonly text: string }[] = [];

  constructor(
    private readonly size: number,
    private readonly plot: Box,
  ) {}

  /** Keep names away from there. */
  take(box: Box): void {
    this.taken.push(box);
  }

  /** The name of what is at a point, and covers `near` pixels around it: at the first side with room; nothing where there is none, or where the same name stands already. */
  beside(x: number, y: number, text: string, sides: readonly Side[], near = GAP): SVGElement | null {
    if (this.done.some((one) => one.text === text && Math.hypot(one.x - x, one.y - y) < GAP)) return null;
    const wide = textWidth(text, this.size);
    for (const side of sides) {
      const [from, anchor] = side === "right" ? [x + GAP, "start"] : side === "left" ? [x - GAP - wide, "end"] : x + wide / 2 > this.plot.right - 2 ? [this.plot.right - 2 - wide, "end"] : [x - wide / 2, "middle"];
      const base = side === "above" ? y - near : side === "below" ? y + near + this.size - 2 : y + this.size / 3;
      const box = { left: from, right: from + wide, top: base - this.size, bottom: base + 3 };
      const isInside = box.left >= this.plot.left && box.right <= this.plot.right && box.top >= this.plot.top && box.bottom <= this.plot.bottom;
      if (!isInside || this.taken.some((other) => meet(box, other))) continue;
      this.taken.push(box);
      this.done.push({ x, y, text });
      return s("text", { x: anchor === "start" ? from : anchor === "end" ? from + wide : from + wide / 2, y: base, "text-anchor": anchor }, text);
    }
    return null;
  }
}
