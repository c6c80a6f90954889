// A run of a device from its beginning to its end: Python, launching, kernels, and what NumPy computes.

import { div, h, s, type Child } from "../parts/dom";
import type { Run, Times } from "../data/model";
import { launchName } from "../data/named";
import { css } from "../parts/styles";
import { HOW, tookBy } from "./took";
import { seconds } from "../data/units";

css`
.ll-lane { width: 100%; height: 14px; min-width: 0; } .ll-lane [data-launch] { cursor: pointer; } .ll-lane rect:not(.ll-modelled) { stroke: var(--ll-ground); } .ll-lane .ll-lit { stroke: var(--ll-high); stroke-width: 3; }
.ll-in-python { fill: var(--ll-rewired-fill); } .ll-launching { fill: var(--ll-edge); }
.ll-lane-key { display: flex; flex-wrap: wrap; gap: 0 14px; padding: 0 8px 5px; font-size: 11px; line-height: 16px; color: var(--ll-faint); }
.ll-lane-key svg { width: 16px; height: 10px; margin-right: 5px; } .ll-lane-key .ll-in-python { stroke: var(--ll-rewired-line); }
`;

const PARTS = { python: ["ll-in-python", "Python"], launching: ["ll-launching", "launching, and gaps between kernels"] } as const;
type PartName = keyof typeof PARTS;

/** A part of a run, and how many seconds it takes. */
export interface Stretch {
  readonly part: PartName | "kernel";
  readonly seconds: number;
  readonly launch?: number;
}

/** The parts of a run in order; where nobody measured more than kernels these stand side by side. */
export function stretches({ rows, python, launching }: Times): Stretch[] {
  const found: Stretch[] = [];
  const beside = (part: PartName, seconds: number | null | undefined): void => void (seconds && found.push({ part, seconds }));
  beside("python", python);
  const ordered = [...rows].sort((one, other) => one.launch - other.launch);
  // What passes between kernels is known as a sum: each has an equal share of it before it.
  for (const { launch, median } of ordered) {
    beside("launching", (launching ?? 0) / ordered.length);
    found.push({ part: "kernel", seconds: median, launch });
  }
  return found;
}

/** The lane of a device: kernels are as long as they take, and so is all around them. */
export function lane(run: Run, times: Times, at: number, select: (launch: number) => void): Child {
  const { device, how } = times, parts = stretches(times);
  const total = parts.reduce((sum, one) => sum + one.seconds, 0) || 1;
  const share = (part: Stretch["part"]): number => parts.filter((one) => one.part === part).reduce((sum, one) => sum + one.seconds, 0);
  const said = [...Object.entries(PARTS).map(([part, [, words]]) => [share(part as PartName), words] as const), [share("kernel"), "kernels"] as const].filter(([of]) => of).map(([of, words]) => `${words} ${seconds(of)}`);
  let from = 0;
  return s(
    "svg",
    { class: "ll-lane", viewBox: "0 0 1000 14", preserveAspectRatio: "none", role: "img", "aria-label": `${device}, a run in order: ${said.join(", ")}` },
    parts.map(({ part, seconds: long, launch }) => {
      const width = (1000 * long) / total, x = from, place = { x, y: 2, width, height: 10, "vector-effect": "non-scaling-stroke" };
      from += width;
      if (launch !== undefined) return s("rect", { class: tookBy(at, how), ...place, "data-launch": launch, onclick: () => select(launch) }, s("title", null, `${launchName(run, launch)}: ${seconds(long)}, ${HOW[how]}`));
      const [name, words] = PARTS[part as PartName];
      return s("rect", { class: name, ...place }, s("title", null, `${words}: ${seconds(share(part))} of a run, ${HOW[how]}`));
    }),
  );
}

/** What the parts of lanes are, with their seconds where one device has them. */
export function laneKey(times: readonly Times[]): Child {
  const known = times.filter(({ python, launching }) => python || launching), [only] = known;
  if (!only) return null;
  const amount = (of: number): string => (known.length === 1 ? ` ${seconds(of)}` : "");
  const kernels = only.rows.reduce((sum, { median }) => sum + median, 0);
  return div(
    "ll-lane-key",
    (Object.keys(PARTS) as PartName[]).map((part) => only[part] ? h("span", null, s("svg", { "aria-hidden": "true" }, s("rect", { class: PARTS[part][0], x: 1, y: 1, width: 14, height: 8 })), `${PARTS[part][1]}${amount(only[part])}`) : null),
    h("span", null, s("svg", { "aria-hidden": "true" }, s("rect", { class: tookBy(times.indexOf(only), only.how), x: 1, y: 1, width: 14, height: 8 })), `kernels${amount(kernels)}`),
    only.whole ? h("span", null, `a whole run ${seconds(only.whole)}`) : null,
  );
}
