// Nodes by name, as the text form has them.

import type { Run } from "./model";

/** %x, %12. */
export function named(run: Run, ids: readonly number[]): string {
  return ids
    .map((id) => {
      const row = run.rowsOf(id)[0];
      return `%${row === undefined ? id : run.name(row) || id}`;
    })
    .join(", ");
}
