// Numbers as words: seconds, bytes, counts, and "1 node", "2 nodes".

/** 11,678: a number's own method takes a new formatter each time, which costs as much as drawing a node. */
export const whole: (number: number) => string = new Intl.NumberFormat("en").format;

type Scale = readonly (readonly [unit: string, size: number])[];
const scaled = (value: number, scale: Scale): string => {
  const [unit, size] = scale.find(([, size]) => value >= size) ?? scale.at(-1)!;
  return `${size === 1 ? whole(value) : digits(value / size)}${unit}`;
};

/** 1.3 ms, 42 µs. */
export function seconds(value: number): string {
  return value >= 1 ? `${digits(value)} s` : scaled(value, [[" ms", 1e-3], [" µs", 1e-6], [" ns", 1e-9]]);
}

/** 50 % of roof; above 100 % the roof is in doubt, and that is said. */
export function ofRoof(share: number): string {
  return `${Math.round(100 * share)} % of roof${share > 1.005 ? " (in doubt)" : ""}`;
}

/** 24.6 kB, 1.2 MB. */
export function bytes(value: number | null | undefined): string {
  return typeof value === "number" ? scaled(value, [[" TB", 1e12], [" GB", 1e9], [" MB", 1e6], [" kB", 1e3], [" B", 1]]) : "?";
}

/** 1.2 T, 340 G, 27. */
export function many(value: number | null | undefined): string {
  return typeof value === "number" ? scaled(value, [[" T", 1e12], [" G", 1e9], [" M", 1e6], ["", 1]]) : "?";
}

/** 1 node, 2 nodes, 11,678 nodes. */
export function count(number: number, what: string, more = `${what}s`): string {
  return `${whole(number)} ${number === 1 ? what : more}`;
}

/** +2, −11, ±0. */
export function signed(number: number): string {
  const size = whole(Math.abs(number));
  return number > 0 ? `+${size}` : number < 0 ? `−${size}` : "±0";
}

/** Three digits that say something. */
export function digits(value: number): string {
  return value.toFixed(value >= 100 ? 0 : value >= 10 ? 1 : 2);
}
