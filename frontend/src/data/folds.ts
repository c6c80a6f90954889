// Times folded: what each part of the model, each line, or each kind of work takes on each device.

import type { Run } from "./model";

export const FOLDS = { launch: "by launch", scope: "by module", line: "by line", kind: "by kind" } as const;
export type Fold = keyof typeof FOLDS;

export interface Folded {
  readonly name: string;
  /** Seconds by device; null where it has no time. */
  readonly seconds: readonly (number | null)[];
  readonly launches: readonly number[];
  /** The line, by its place in the origins; null of a module or a kind. */
  readonly origin: number | null;
}

/** Rows of a fold, what takes longest on the first device that was timed first. */
export function folded(run: Run, by: Exclude<Fold, "launch">): Folded[] {
  const { launches, times } = run.facts;
  const shares = launches.map(({ origins, shares, scopes, family }): (readonly [string, number, number | null])[] => {
    if (by === "kind") return [[family || "other", 1, null]];
    if (by === "scope") return scopes?.length ? scopes.map(([path, share]) => [path || "(no scope)", share, null]) : [["(no scope)", 1, null]];
    if (!origins.length) return [["(no line)", 1, null]];
    return origins.map((origin, at) => [nameOf(run, origin), shares?.[at] ?? 1 / origins.length, origin]);
  });
  const rows = new Map<string, { name: string; seconds: (number | null)[]; launches: Set<number>; origin: number | null }>();
  times.forEach(({ rows: timed }, device) => {
    for (const { launch, median } of timed)
      for (const [name, share, origin] of shares[launch] ?? []) {
        const row = rows.get(name) ?? { name, seconds: times.map(() => null), launches: new Set<number>(), origin };
        row.seconds[device] = (row.seconds[device] ?? 0) + share * median;
        row.launches.add(launch);
        rows.set(name, row);
      }
  });
  const first = ({ seconds }: { seconds: readonly (number | null)[] }): number => seconds.find((one) => one !== null) ?? 0;
  return [...rows.values()].sort((one, other) => first(other) - first(one)).map((row) => ({ ...row, launches: [...row.launches].sort((a, b) => a - b) }));
}

/** Lines are told apart by their text too, where two cells have one name. */
function nameOf(run: Run, origin: number): string {
  const { file, line, code } = run.origins[origin]!;
  return `${file}, line ${line}${code ? `:  ${code}` : ""}`;
}
