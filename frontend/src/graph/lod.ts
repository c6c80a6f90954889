// How much is drawn at which scale: far out shapes alone, nearer names, near all that nodes say.

/** 0: outlines, and names of boxes that have room; 1: a name in each node; 2: ids, types and views as well. */
export type Detail = 0 | 1 | 2;

export interface Level {
  readonly detail: Detail;
  /** How large the letters of names are, in the scene's units: all of a picture are equal. */
  readonly letters: number;
}

/** Letters that are lower than so many pixels cannot be read. */
const LEGIBLE = 9;
/** From this scale on nodes have names: one sees that there are some before one can read them. */
const NAMES = 0.3;
/** So much room each node has for its name; as in viz/sizes.py. */
export const WORD = 16;
/** How many pixels high letters are about, far out. */
const LETTERS = 11;

/** How high the smallest letters are where nodes say all, in the scene's units; as in drawing.ts. */
const SMALLEST = 10;

/** The least scale at which names can be read; `type` is by how much letters are to be larger than usual. */
export const readable = (type = 1): number => (LEGIBLE * type) / (WORD * fontFit());

/** The least scale at which all that nodes say can be read. */
export const comfortable = (type = 1): number => (LEGIBLE * type) / (SMALLEST * fontFit());

let fit = 0;

/** How much smaller letters have to be where the font is wider than the one that things are sized for. */
export function fontFit(): number {
  return (fit ||= measured());
}

function measured(): number {
  const pen = typeof CanvasRenderingContext2D === "function" ? document.createElement("canvas").getContext("2d") : null;
  if (!pen) return 1;
  pen.font = 'bold 12.5px Helvetica, Arial, "Liberation Sans", "DejaVu Sans Condensed", "DejaVu Sans", sans-serif';
  // 25 letters, which are 11.67 of their size wide in Helvetica, with the room that sizes leave.
  return Math.min(1, (12.5 * 11.67) / pen.measureText("layers.0.attn_weight.bias").width);
}

/** The level at a scale; equal scales, and those near each other, have the same object. */
export function levelAt(scale: number, type = 1): Level {
  const detail: Detail = scale >= comfortable(type) ? 2 : scale >= NAMES ? 1 : 0;
  // Quarter octaves, so that letters grow and shrink a little before they are drawn anew.
  const step = detail ? 0 : Math.round(4 * Math.log2(scale));
  const key = `${detail} ${step}`;
  let found = levels.get(key);
  if (!found) levels.set(key, (found = { detail, letters: detail ? WORD : LETTERS / 2 ** (step / 4) }));
  return found;
}

const levels = new Map<string, Level>();
