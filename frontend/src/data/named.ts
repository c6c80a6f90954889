// Nodes and launches by name.

import type { Run } from "./model";

/** Nodes as the text form has them: %x, %12. */
export function named(run: Run, ids: readonly number[]): string {
  return ids
    .map((id) => {
      const row = run.rowsOf(id)[0];
      return `%${row === undefined ? id : run.name(row) || id}`;
    })
    .join(", ");
}

/** What a launch is called: its number, its kernel, and what it makes, if that has a name. */
export function launchName(run: Run, at: number): string {
  const { launches, kernels } = run.facts;
  const launch = launches[at];
  const kernel = launch && kernels[launch.kernel]?.name;
  if (!launch) return `${at}`;
  const isNamed = !/^%?\d+$/.test(launch.name) && launch.name !== kernel;
  return `${at}: ${[kernel, (isNamed || !kernel) && launch.name].filter(Boolean).join(" → ")}`;
}
