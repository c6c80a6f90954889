// The values of a node, which the kernel computes when somebody asks: numbers and a histogram.

import { button, fill, h, s, type Child } from "../parts/dom";
import { paint, rampOf, scaleOf, sides } from "../parts/heat";
import type { Live, Reply } from "../data/live";
import { eachFrame, type Machine } from "../data/machine";
import { statistics } from "../data/numbers";
import { css } from "../parts/styles";

css`
.ll-bins { width: 100%; height: 74px; display: block; margin: 6px 0 2px; }
.ll-bins rect { fill: var(--ll-accent); }
.ll-bins line { stroke: var(--ll-edge); }
.ll-ends { display: flex; justify-content: space-between; font-size: 11px; color: var(--ll-faint); }
`;

export interface Asked extends Readonly<Record<string, unknown>> {
  readonly run: number;
  readonly stage: number;
  readonly id: number;
}

/** What was answered before, by kernel. */
const KNOWN = new WeakMap<Live, Map<string, Reply>>();

/** A part of a panel: a button, then what the kernel says. */
export function valuesOf(live: Live, asked: Asked): HTMLElement {
  const host = h("div");
  if (live.machine) return now(host, live.machine, asked.id);
  const known = KNOWN.get(live) ?? new Map<string, Reply>();
  KNOWN.set(live, known);
  const key = `${asked.run} ${asked.stage} ${asked.id}`;
  const ask = (): void => {
    fill(host, h("p", { class: "ll-faint", role: "status" }, "The kernel is computing …"));
    live.ask("values", asked).then(
      (reply) => {
        known.set(key, reply);
        fill(host, told(reply));
      },
      (error: Error) => fill(host, h("p", { class: "ll-sorry", role: "alert" }, error.message)),
    );
  };
  const before = known.get(key);
  if (before) fill(host, told(before), button("Compute again", "Compute the values again", ask));
  else if (live.hasKernel) fill(host, button("Compute values", "Compute the values with the interpreter", ask));
  else fill(host, h("p", { class: "ll-faint" }, live.sorry));
  return host;
}

/** What a machine in the page computes, for as long as the element is there. */
function now(host: HTMLElement, machine: Machine, id: number): HTMLElement {
  const image = h("canvas", { class: "ll-image", role: "img", "aria-label": "The numbers as colours, the last axis across" }), words = h("div");
  const draw = (): void => {
    if (!host.isConnected && host.childElementCount) return stop();
    const value = machine.value(id);
    if (!value) return void fill(host, h("p", { class: "ll-faint" }, !machine.has(id) ? "This page does not keep it: it is too large, or lived within a pass." : "Press Run: this page then computes it."));
    if (image.parentNode !== host) fill(host, words, image);
    fill(words, told(statistics(value.dtype, value.shape, value.numbers)));
    if (host.isConnected) paint(image, value.numbers, sides(value.shape), rampOf(image), scaleOf(value.numbers));
  };
  const stop = eachFrame(machine, draw);
  draw();
  requestAnimationFrame(draw); // as soon as it is in the page
  return host;
}

/** Six digits at most, and no trailing zeros. */
export function short(value: number): string {
  return Number.isFinite(value) ? String(Number(value.toPrecision(5))) : String(value);
}

function told(reply: Reply): Child[] {
  const number = (name: string): number | null => (typeof reply[name] === "number" ? reply[name] : null);
  const rows = ["count", "min", "max", "mean", "std", "zeros", "nan", "inf"].flatMap((name) => {
    const value = number(name);
    return value === null || (value === 0 && (name === "nan" || name === "inf")) ? [] : [[name, name === "count" ? value.toLocaleString("en") : short(value)] as const];
  });
  const bins = reply["bins"], edges = reply["edges"];
  return [
    typeof reply["text"] === "string" && reply["text"] !== "" && h("p", null, reply["text"]),
    h("dl", null, rows.map(([name, value]) => [h("dt", null, name), h("dd", null, value)])),
    Array.isArray(bins) && bins.length > 0 && Array.isArray(edges) && histogram(bins.map(Number), edges.map(Number)),
  ];
}

/** Bars of counts between edges. */
export function histogram(bins: readonly number[], edges: readonly number[]): HTMLElement {
  const most = Math.max(...bins, 1), width = 100 / bins.length;
  const low = short(edges[0] ?? 0), high = short(edges.at(-1) ?? 0);
  const top = bins.indexOf(Math.max(...bins));
  const label = `Histogram of ${bins.length} bins from ${low} to ${high}; most values, ${bins[top]!.toLocaleString("en")}, lie between ${short(edges[top] ?? 0)} and ${short(edges[top + 1] ?? 0)}`;
  return h(
    "div",
    null,
    s(
      "svg",
      { class: "ll-bins", viewBox: "0 0 100 40", preserveAspectRatio: "none", role: "img", "aria-label": label },
      bins.map((bin, at) => {
        // What is there at all is seen.
        const high = bin ? Math.max(0.8, (bin / most) * 39) : 0;
        const words = `${bin.toLocaleString("en")} from ${short(edges[at] ?? 0)} to ${short(edges[at + 1] ?? 0)}`;
        return s("rect", { x: at * width, y: 40 - high, width: width * 0.92, height: high }, s("title", null, words));
      }),
    ),
    h("div", { class: "ll-ends" }, h("span", null, low), h("span", null, high)),
  );
}
