// Which lines of two texts are the same, and a text diff with only what changed and a few lines around it.

/** One line of a diff: of the old text, of the new one, or both; or lines that are folded away. */
export type DiffLine =
  | { readonly kind: "same"; readonly old: number; readonly new: number }
  | { readonly kind: "gone"; readonly old: number }
  | { readonly kind: "new"; readonly new: number }
  | { readonly kind: "fold"; readonly old: number; readonly new: number; readonly count: number };

/** A change: at `place` of the old lines `gone` go, and `put` come in. */
export type Splice = readonly [place: number, gone: number, put: number];

/** A diff of splices in rising order: `context` lines around each, the rest folded unless opened. */
export function unified(oldCount: number, splices: readonly Splice[], context = 3, opened: ReadonlySet<number> = new Set()): DiffLine[] {
  const lines: DiffLine[] = [];
  let old = 0;
  let shift = 0;
  const same = (upTo: number, after: boolean, before: boolean): void => {
    const head = after ? context : 0;
    const tail = before ? context : 0;
    const count = upTo - old - head - tail;
    // A fold that hides one line saves nothing.
    if (count > 1 && !opened.has(old)) {
      for (const end = old + head; old < end; old++) lines.push({ kind: "same", old, new: old + shift });
      lines.push({ kind: "fold", old, new: old + shift, count });
      old += count;
    }
    for (; old < upTo; old++) lines.push({ kind: "same", old, new: old + shift });
  };
  splices.forEach(([place, gone, put], at) => {
    same(place, at > 0, true);
    for (let line = 0; line < gone; line++) lines.push({ kind: "gone", old: place + line });
    for (let line = 0; line < put; line++) lines.push({ kind: "new", new: place + shift + line });
    old = place + gone;
    shift += put - gone;
  });
  same(oldCount, splices.length > 0, false);
  return lines;
}

/** What takes one list of lines to another: the longest common subsequence, for texts of some hundred lines. */
export function splices(before: readonly string[], after: readonly string[]): Splice[] {
  let start = 0;
  while (start < before.length && start < after.length && before[start] === after[start]) start++;
  let end = 0;
  while (end < before.length - start && end < after.length - start && before[before.length - 1 - end] === after[after.length - 1 - end]) end++;
  const [rows, columns] = [before.length - start - end, after.length - start - end];
  const wide = columns + 1;
  const common = new Uint32Array((rows + 1) * wide);
  for (let row = rows - 1; row >= 0; row--)
    for (let column = columns - 1; column >= 0; column--)
      common[row * wide + column] =
        before[start + row] === after[start + column]
          ? common[(row + 1) * wide + column + 1]! + 1
          : Math.max(common[(row + 1) * wide + column]!, common[row * wide + column + 1]!);
  const found: [number, number, number][] = [];
  const put = (row: number, gone: number, came: number): void => {
    const last = found.at(-1);
    if (last && last[0] + last[1] === start + row) {
      last[1] += gone;
      last[2] += came;
    } else found.push([start + row, gone, came]);
  };
  for (let row = 0, column = 0; row < rows || column < columns; )
    if (row < rows && column < columns && before[start + row] === after[start + column]) {
      row++;
      column++;
    } else if (column >= columns || (row < rows && common[(row + 1) * wide + column]! >= common[row * wide + column + 1]!)) put(row++, 1, 0);
    else {
      put(row, 0, 1);
      column++;
    }
  return found;
}
