// How much is drawn at which scale: far out shapes alone, nearer labels, near types as well.

/** 0: no text but the names of large boxes; 1: labels; 2: types and views at the arrows. */
export type Detail = 0 | 1 | 2;

export interface Level {
  readonly detail: Detail;
  /** How large a letter of a name is far out, in the scene's units: always about as large on the screen. */
  readonly letters: number;
}

const LABELS = 0.42, TYPES = 0.62;
const LETTERS = 12;

/** The level at a scale; equal scales, and those near each other, have the same object. */
export function levelAt(scale: number): Level {
  const detail: Detail = scale >= TYPES ? 2 : scale >= LABELS ? 1 : 0;
  // Half octaves, so that letters grow and shrink a little before they are drawn anew.
  const step = detail ? 0 : Math.round(2 * Math.log2(scale));
  const key = `${detail} ${step}`;
  let found = levels.get(key);
  if (!found) levels.set(key, (found = { detail, letters: LETTERS / 2 ** (step / 2) }));
  return found;
}

const levels = new Map<string, Level>();
