// How wide text is: the table of viz/metrics.py, by which things are sized.

const ROWS: readonly (readonly [width: number, letters: string])[] = [
  [222, "ijl'"], [260, "|"], [278, " !,./:;I[]ft\\"], [334, '()-`r{}"'], [389, "*"], [469, "^"], [500, "Jckjsvxyz"],
  [556, "0123456789#$?L_abdeghnopqu·–"], [584, "+<=>~×−→%&"], [611, "FTZ"], [667, "ABEKPSVXY"], [722, "CDHNRUw"],
  [778, "GOQ"], [833, "Mm"], [944, "W"], [1000, "@…∇"],
];
const WIDTHS = new Map(ROWS.flatMap(([width, letters]) => [...letters].map((letter) => [letter, width] as const)));
/** What is added for fonts that are wider than Helvetica. */
const ROOM = 1.06, OTHER = 620;

/** How wide a text is in letters of a size. */
export function textWidth(text: string, size: number): number {
  let total = 0;
  for (const letter of text) total += WIDTHS.get(letter) ?? OTHER;
  return (total * size * ROOM) / 1000;
}
