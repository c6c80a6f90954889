// A wire as points in the scene, from one of its ends on.

import type { Scene } from "./scene";

export type Point = readonly [x: number, y: number];

/** The course of a wire of a visible frame as points, from the end that a way begins at. */
export function routeCourse(scene: Scene, frame: number, wire: number, way: "up" | "down"): Point[] {
  const placed = scene.placed(frame);
  if (!placed) return [];
  const course = placed.placement.course(wire - scene.view.frame.wires[frame]!), points: Point[] = [];
  for (let at = 0; at < course.length; ) {
    const count = course[at++]!;
    // Of a curve its middle and its end.
    if (count === 6) points.push([placed.x + (course[at]! + course[at + 4]!) / 2, placed.y + course[at + 1]!]);
    points.push([placed.x + course[at + count - 2]!, placed.y + course[at + count - 1]!]);
    at += count;
  }
  if (scene.view.wire.target[wire]! < 0 && points.length) points.push([points.at(-1)![0], placed.y + placed.placement.height + placed.below]);
  return way === "up" ? points.reverse() : points;
}
