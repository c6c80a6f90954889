// Ways along wires from thing to thing, through the borders of open boxes.

import type { Presence } from "../data/presence";
import type { Scene } from "./scene";

export interface Route {
  /** What is reached: nodes and closed boxes. */
  readonly things: readonly number[];
  /** The wires on the way, with the frames that they lie in. */
  readonly wires: readonly (readonly [frame: number, wire: number])[];
}

/** Follow the wires of a visible thing: up to what it reads, or down to what reads it. */
export function route(scene: Scene, there: Presence, thing: number, way: "up" | "down"): Route {
  const { view } = scene, { wire, frame, port } = view;
  const [near, far] = way === "up" ? [wire.target, wire.source] : [wire.source, wire.target];
  const things = new Set<number>(), wires: [number, number][] = [], seen = new Set<number>();
  const todo: [inside: number, end: number, carried: number][] = [];
  const start = view.thing.frame[thing]!;
  todo.push([start, thing - frame.things[start]!, -1]);
  while (todo.length) {
    const [inside, end, carried] = todo.pop()!;
    for (let one = frame.wires[inside]!; one < frame.wires[inside + 1]!; one++) {
      if (near[one] !== end || (carried >= 0 && wire.carried[one] !== carried) || seen.has(one) || !there.hasWire(one, inside)) continue;
      seen.add(one);
      wires.push([inside, one]);
      const other = far[one]!, value = wire.carried[one]!;
      if (other < 0) {
        const box = frame.box[inside]!, outer = view.thing.frame[box]!;
        todo.push([outer, box - frame.things[outer]!, value]);
        continue;
      }
      const reached = frame.things[inside]! + other;
      if (!scene.isOpen(reached)) {
        things.add(reached);
        continue;
      }
      const inner = view.thing.opens[reached]!;
      for (let at = frame.ports[inner]!; at < frame.ports[inner + 1]!; at++)
        if (port.row[at] === value) todo.push([inner, -1 - (at - frame.ports[inner]!), value]);
    }
  }
  return { things: [...things], wires };
}

/** The nearest thing of the same row on one side; -1 where there is none. */
export function beside(scene: Scene, there: Presence, thing: number, way: "left" | "right"): number {
  const { view } = scene, frame = view.thing.frame[thing]!;
  const own = scene.rect(thing);
  if (!own) return -1;
  let found = -1, least = Infinity;
  for (let other = view.frame.things[frame]!; other < view.frame.things[frame + 1]!; other++) {
    const rect = scene.rect(other);
    if (!rect || other === thing || !there.has(other)) continue;
    const apart = (rect.x + rect.width / 2 - own.x - own.width / 2) * (way === "left" ? -1 : 1);
    const overlap = Math.min(rect.y + rect.height, own.y + own.height) - Math.max(rect.y, own.y);
    if (apart > 0 && overlap > 0 && apart < least) [found, least] = [other, apart];
  }
  return found;
}
