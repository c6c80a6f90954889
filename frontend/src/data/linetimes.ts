// What the user's lines take: the time of each launch, shared by the lines that it comes of: by what each computes.

import type { Run, Times } from "./model";

export interface LineTimes {
  readonly device: string;
  readonly how: Times["how"];
  /** Seconds, by place in `run.origins`. */
  readonly seconds: ReadonlyMap<number, number>;
  readonly total: number;
}

/** The times of lines on the device that was measured first, or timed at all; null where nobody timed the run. */
export function lineTimes({ facts }: Run): LineTimes | null {
  const of = facts.times.find((one) => one.how === "measured" && one.rows.length) ?? facts.times.find((one) => one.rows.length);
  if (!of) return null;
  const seconds = new Map<number, number>();
  let total = 0;
  for (const { launch, median } of of.rows) {
    const { origins = [], shares } = facts.launches[launch] ?? {};
    total += median;
    origins.forEach((origin, at) => seconds.set(origin, (seconds.get(origin) ?? 0) + median * (shares?.[at] ?? 1 / origins.length)));
  }
  return { device: of.device, how: of.how, seconds, total };
}
