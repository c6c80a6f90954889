// Which boxes are open after opening or closing many at once.

import type { View } from "../data/view";

/** The paths that are open with all boxes in sight opened: one level, or all there are. */
export function expanded(view: View, open: ReadonlySet<string>, all: boolean): ReadonlySet<string> {
  return new Set([...open, ...inSight(view, open, all).map((thing) => view.box(thing)!.path)]);
}

/** The paths that are open without those that have no open box inside. */
export function collapsed(view: View, open: ReadonlySet<string>): ReadonlySet<string> {
  const opened = inSight(view, open, false).filter((thing) => open.has(view.box(thing)!.path));
  return new Set(opened.flatMap((thing) => view.above(thing)).map((thing) => view.box(thing)!.path));
}

/** The boxes that stand in no closed one. */
function inSight(view: View, open: ReadonlySet<string>, all: boolean): number[] {
  const found: number[] = [];
  view.thing.opens.forEach((frame, thing) => {
    if (frame >= 0 && (all || view.above(thing).every((one) => open.has(view.box(one)!.path)))) found.push(thing);
  });
  return found;
}
