// How a time is drawn: by the device, and by how it came about.

import type { Times } from "../data/model";
import { css } from "../parts/styles";

css`
.ll-took { fill: var(--ll-mine, var(--ll-accent)); stroke: var(--ll-mine, var(--ll-accent)); stroke-width: 1.2; } .ll-took.ll-recorded { fill: url(#ll-hatch); fill-opacity: 1; }
.ll-device-1 { --ll-mine: var(--ll-reduce-line); } .ll-device-2 { --ll-mine: var(--ll-source-line); } .ll-device-3 { --ll-mine: var(--ll-call-line); } .ll-device-4 { --ll-mine: var(--ll-kernel-line); } .ll-took.ll-modelled { fill: transparent; stroke-dasharray: 3 2; }
`;

/** What a device is drawn with: how its times came about tells by its shape, and its colour repeats which it is. */
export const tookBy = (device: number, how: Times["how"]): string => `ll-took ll-${how} ll-device-${device % 5}`;

export const HOW = { measured: "measured here", recorded: "recorded elsewhere", modelled: "modelled, not run" } as const;
