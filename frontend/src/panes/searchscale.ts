// How the times of candidates become heights: logarithms of seconds, or of shares of the default's time.

import { seconds } from "../data/units";

interface Timed {
  readonly kernel: number;
  readonly number: number;
  readonly seconds: number;
  readonly ratio: number;
}

export interface Scale {
  readonly low: number;
  readonly high: number;
  readonly ticks: readonly number[];
  /** Whether values are shares of the default's time, as with several kernels. */
  readonly isShare: boolean;
  /** What a candidate's height stands for; NaN where it has no time. */
  value(one: Timed): number;
  /** The machine's limit for a kernel; NaN where it is unknown. */
  limit(kernel: number): number;
  /** Where a value is between the lowest and the highest, from 0 to 1. */
  share(value: number): number;
}

/** What is so many times below or above all that matters is not worth the room on the way. */
const FAR = 8;
const STEPS = [[1], [1, 3], [1, 2, 5], [1, 1.5, 2, 3, 4, 5, 7]];

/** The same as in viz/search_chart.py. */
export function scaleOf(kernels: readonly { readonly limit: number | null }[], candidates: readonly Timed[]): Scale {
  const isShare = kernels.length > 1;
  const value = (one: Timed): number => (isShare ? one.ratio : one.seconds);
  const defaults = kernels.map((_, at) => candidates.find((one) => one.kernel === at && !one.number));
  const limit = (at: number): number => {
    const own = kernels[at]?.limit ?? NaN;
    return isShare ? own / (defaults[at]?.seconds ?? NaN) : own;
  };
  const times = candidates.map(value).filter((time) => time > 0).sort((a, b) => a - b);
  if (!times.length) times.push(1);
  const usual = Math.max(times[times.length >> 1]!, ...defaults.map((one) => (one ? value(one) : NaN)).filter((time) => time > 0));
  const least = times[0]!, most = Math.min(times.at(-1)!, FAR * usual);
  const bottom = Math.min(least, ...kernels.map((_, at) => limit(at)).filter((one) => one > least / FAR));
  const room = Math.max(Math.log(most / bottom), Math.log(1.2)) * 0.06;
  const low = bottom * Math.exp(-room), high = most * Math.exp(room);
  return { low, high, isShare, value, limit, ticks: ticks(low, high), share: (one) => Math.min(1, Math.max(0, Math.log(one / low) / Math.log(high / low))) };
}

/** Some round numbers between two, evenly spread by their logarithms. */
export function ticks(low: number, high: number): number[] {
  const powers: number[] = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) powers.push(power);
  for (const parts of STEPS) {
    const shown = powers.flatMap((power) => parts.map((part) => Number(`${part}e${power}`))).filter((one) => one >= low && one <= high);
    if (shown.length >= 3) return shown;
  }
  const power = 10 ** Math.floor(Math.log10(high - low));
  const step = power * ([1, 0.5, 0.2].find((part) => (high - low) / (power * part) >= 3) ?? 0.1);
  const found: number[] = [];
  for (let at = Math.ceil(low / step); at * step <= high; at++) found.push(Number((at * step).toPrecision(6)));
  return found;
}

/** A value as the axis has it. */
export function text(value: number, isShare: boolean): string {
  return isShare ? String(value) : seconds(value).replace(/(\.\d*?)0+(?= )/, "$1").replace(/\.(?= )/, "");
}
