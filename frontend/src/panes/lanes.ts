// A run of a device from its beginning to its end: Python, its calls that launch, the kernels, and the gaps.

import { div, h, s, span, type Child } from "../parts/dom";
import type { Run, Times } from "../data/model";
import { launchName } from "../data/named";
import { css } from "../parts/styles";
import { HOW, tookBy } from "./took";
import { seconds } from "../data/units";

css`
.ll-lane { width: 100%; height: 26px; min-width: 0; } .ll-lane.ll-alone { height: 14px; } .ll-lane [data-launch] { cursor: pointer; } .ll-lane rect:not(.ll-modelled) { stroke: var(--ll-ground); } .ll-lane .ll-lit { stroke: var(--ll-high); stroke-width: 3; }
.ll-in-python { fill: var(--ll-view-line); } .ll-launching { fill: var(--ll-launch-line); } .ll-lane .ll-gap { fill: var(--ll-line); stroke: none; }
.ll-lane-key { display: flex; flex-wrap: wrap; gap: 0 14px; padding: 0 8px 5px; font-size: 11px; line-height: 16px; color: var(--ll-faint); }
.ll-lane-key > span { white-space: nowrap; } .ll-lane-key svg { width: 16px; height: 10px; margin-right: 5px; }
`;

/** Less than this is no gap, but the grain of a clock. */
const GRAIN = 1e-7;

/** A part of a lane, in seconds after the run began. */
export interface Stretch {
  readonly part: "python" | "launching" | "kernel" | "gap";
  readonly start: number;
  readonly seconds: number;
  readonly launch?: number;
}

/** The parts of a run; where nobody knows when its kernels began they stand one after the other. */
export function stretches({ rows, run }: Pick<Times, "rows" | "run">): Stretch[] {
  if (!run) {
    let start = 0;
    return [...rows].sort((one, other) => one.launch - other.launch).map(({ launch, median }) => {
      const found: Stretch = { part: "kernel", start, seconds: median, launch };
      start += median;
      return found;
    });
  }
  const found: Stretch[] = [{ part: "python", start: 0, seconds: run.seconds }, ...run.calls.map(([start, seconds]): Stretch => ({ part: "launching", start, seconds }))];
  let now = 0;
  const gap = (until: number): void => void (until - now > GRAIN && found.push({ part: "gap", start: now, seconds: until - now }));
  for (const [launch, start, seconds] of [...run.kernels].sort((one, other) => one[1] - other[1])) {
    gap(start);
    found.push({ part: "kernel", start, seconds, launch });
    now = Math.max(now, start + seconds);
  }
  gap(run.seconds);
  return found;
}

const WORDS = { python: "Python", launching: "calls that launch", kernel: "kernels", gap: "gaps, in which no kernel runs" } as const;
/** From which height on each stands, and how high it is. */
const PLACES = { python: [0, 5], launching: [7, 5], kernel: [14, 11], gap: [14, 11] } as const;
const sum = (parts: readonly Stretch[], of: Stretch["part"]): number => parts.filter(({ part }) => part === of).reduce((all, one) => all + one.seconds, 0);

/** The lane of a device. */
export function lane(run: Run, times: Times, at: number, select: (launch: number) => void): Child {
  const { device, how } = times, parts = stretches(times), isAlone = !times.run;
  const whole = Math.max(1e-12, ...parts.map(({ start, seconds }) => start + seconds));
  const said = (["python", "launching", "kernel", "gap"] as const).flatMap((part) => (sum(parts, part) ? [`${WORDS[part]} ${seconds(sum(parts, part))}`] : []));
  return s(
    "svg",
    { class: `ll-lane${isAlone ? " ll-alone" : ""}`, viewBox: `0 0 1000 ${isAlone ? 14 : 26}`, preserveAspectRatio: "none", role: "img", "aria-label": `${device}, ${isAlone ? "launches in the order of the program" : "one run"}: ${said.join(", ")}` },
    parts.map(({ part, start, seconds: long, launch }) => {
      const [y, height] = isAlone ? [2, 10] : PLACES[part];
      const place = { x: (1000 * start) / whole, y, width: (1000 * long) / whole, height, "vector-effect": "non-scaling-stroke" };
      if (launch === undefined) return s("rect", { class: { python: "ll-in-python", launching: "ll-launching", gap: "ll-gap", kernel: "" }[part], ...place }, s("title", null, `${WORDS[part]}: ${seconds(long)}, ${HOW[how]}`));
      return s("rect", { class: tookBy(at, how), ...place, "data-launch": launch, onclick: () => select(launch) }, s("title", null, `${launchName(run, launch)}: ${seconds(long)}, ${HOW[how]}`));
    }),
  );
}

/** What the parts of a lane are, and how long they take in the run that is shown; nothing where no run is. */
export function laneKey(times: readonly Times[]): Child {
  const at = times.findIndex(({ run }) => run), of = times[at];
  if (!of?.run) return null;
  const parts = stretches(of);
  const entry = (part: keyof typeof WORDS, name: string): Child => h("span", null, s("svg", { "aria-hidden": "true" }, s("rect", { class: name, x: 1, y: 1, width: 14, height: 8, style: part === "gap" ? "fill:var(--ll-line)" : null })), `${WORDS[part]} ${seconds(sum(parts, part))}`);
  return div("ll-lane-key", span("", `a run of about the median, on ${of.device}:`), entry("python", "ll-in-python"), entry("launching", "ll-launching"), entry("kernel", tookBy(at, of.how)), entry("gap", ""), of.run.note && span("", of.run.note));
}
