// How much is drawn at which scale: far out shapes alone, nearer names, near all that nodes say.

/** 0: outlines, and names of boxes that have room; 1: a name in each node; 2: ids, types and views as well. */
export type Detail = 0 | 1 | 2;

export interface Level {
  readonly detail: Detail;
  /** How large the letters of names are, in the scene's units: all of a picture are equal. */
  readonly letters: number;
}

const NAMES = 0.3, TYPES = 0.62;
/** So much room each node has for its name; as in viz/sizes.py. */
export const WORD = 16;
/** How many pixels high letters are about, far out. */
const LETTERS = 11;

/** The level at a scale; equal scales, and those near each other, have the same object. */
export function levelAt(scale: number): Level {
  const detail: Detail = scale >= TYPES ? 2 : scale >= NAMES ? 1 : 0;
  // Half octaves, so that letters grow and shrink a little before they are drawn anew.
  const step = detail ? 0 : Math.round(2 * Math.log2(scale));
  const key = `${detail} ${step}`;
  let found = levels.get(key);
  if (!found) levels.set(key, (found = { detail, letters: detail ? WORD : LETTERS / 2 ** (step / 2) }));
  return found;
}

const levels = new Map<string, Level>();
