// Motion from the graph before a pass to the one after it.

import type { Scene } from "./scene";

/** Whether one does not want to see things move. */
export function isStill(): boolean {
  return typeof matchMedia === "function" && matchMedia("(prefers-reduced-motion: reduce)").matches;
}

/** By how much what two scenes of one view both have lies elsewhere in the second, in the middle of all. */
export function drift(before: Scene, after: Scene): readonly [x: number, y: number] {
  let x = 0, y = 0, count = 0;
  for (const { frame } of after.frames) {
    const { things } = after.view.frame;
    for (let thing = things[frame]!; thing < things[frame + 1]!; thing++) {
      const was = before.rect(thing), is = after.rect(thing);
      if (!was || !is || after.isOpen(thing)) continue;
      x += is.x + is.width / 2 - was.x - was.width / 2;
      y += is.y - was.y;
      count++;
    }
  }
  return count ? [x / count, y / count] : [0, 0];
}
