// When each worker did what in the last run: a lane for each, what they sent joins lanes, bubbles are hatched.

import { div, h, s, span, type Child } from "../parts/dom";
import type { Lanes, Met, Work } from "../data/model";
import { textWidth } from "../data/metrics";
import { css, typeScale } from "../parts/styles";
import { bytes, count, seconds } from "../data/units";

css`
.ll-workers-lanes { display: grid; grid-template-columns: auto minmax(0, 1fr); gap: 0 8px; padding: 2px 10px 4px; font-size: 11px; }
.ll-workers-lanes > ul { margin: 0; padding: 0; list-style: none; color: var(--ll-faint); white-space: nowrap; } .ll-workers-lanes > ul > li { height: 40px; line-height: 26px; }
.ll-workers-lanes > svg { width: 100%; display: block; }
.ll-workers-lanes text { font-size: 11px; fill: var(--ll-text); text-anchor: middle; dominant-baseline: central; pointer-events: none; }
.ll-bubble { fill: url(#ll-bubble); stroke: var(--ll-line); } .ll-bubbles path { stroke: var(--ll-faint); stroke-width: 1.2; opacity: .55; }
.ll-turn { stroke: var(--ll-ground); } .ll-turn.ll-forward, .ll-turn.ll-compute { fill: var(--ll-tint-0); } .ll-turn.ll-backward { fill: var(--ll-tint-1); } .ll-turn.ll-end { fill: var(--ll-tint-4); } .ll-turn.ll-send { fill: var(--ll-tint-1); }
.ll-join { stroke: var(--ll-sent-line); stroke-width: 1.6; } .ll-join.ll-back { stroke-dasharray: 4 2; } g.ll-meets { cursor: pointer; } .ll-meets circle { fill: var(--ll-ground); stroke: var(--ll-sent-line); stroke-width: 1.6; } .ll-meets .ll-wide { stroke: transparent; stroke-width: 9; }
.ll-meets:hover .ll-join, .ll-meets.ll-lit .ll-join { stroke: var(--ll-high); stroke-width: 3; } .ll-meets.ll-lit circle { stroke: var(--ll-high); }
.ll-lanes-key { display: flex; flex-wrap: wrap; gap: 0 14px; padding: 0 10px 4px; font-size: 11px; line-height: 16px; color: var(--ll-faint); } .ll-lanes-key svg { width: 18px; height: 11px; margin-right: 5px; vertical-align: -1px; }
`;

/** How far lanes are apart, and how high they are. */
const EVERY = 40, HIGH = 26;

const WORDS: Readonly<Record<string, string>> = { forward: "forward", backward: "backward", end: "once all microbatches are done", compute: "computes", send: "sends, once all have come" };

/** From the first to the last moment, and the part of all workers' time in which they wait; of a pipeline without its end. */
export function waiting({ workers, work }: Lanes): { seconds: number; share: number } {
  const turns = work.filter(([, , micro]) => micro >= 0);
  const first = Math.min(...turns.map((one) => one[3])), last = Math.max(...turns.map((one) => one[4]));
  if (!(last > first)) return { seconds: 0, share: 0 };
  return { seconds: last - first, share: 1 - turns.reduce((sum, one) => sum + one[4] - one[3], 0) / (workers * (last - first)) };
}

/** How long it took, and how much of it was waiting, in words. */
export function toldOf(lanes: Lanes): string {
  const { seconds: time, share } = waiting(lanes), { workers, microbatches } = lanes, part = `${Math.round(100 * share)} %`;
  if (!microbatches) return `${seconds(time)}, ${part} of it waiting at ${count(lanes.met.length, "collective")}`;
  const formula = Math.round((100 * (workers - 1)) / (microbatches + workers - 1));
  return `${seconds(time)}, ${part} bubbles; ${formula} % if stages took equally long`;
}

/** What a turn is called: F0, B3; of workers that have parts of all values only its colour tells. */
const label = ([, phase, micro]: Work): string => (/^(compute|send)$/.test(phase) ? "" : phase[0]!.toUpperCase() + (micro < 0 ? "" : micro));

/** The lanes; `meet` is called with what somebody wants to know more of. */
export function workerLanes(lanes: Lanes, meet: (op: string, axis: string) => void): HTMLElement {
  const { workers, work, sent, met } = lanes;
  const start = Math.min(...work.map((one) => one[3])), whole = Math.max(1e-12, Math.max(...work.map((one) => one[4])) - start);
  const x = (at: number): string => `${((100 * Math.min(Math.max(0, at - start), whole)) / whole).toFixed(3)}%`;
  const wide = (time: number): string => `${Math.max(0.1, (100 * time) / whole).toFixed(3)}%`;
  const top = (worker: number): number => worker * EVERY;
  const turn = (one: Work): Child => {
    const [worker, phase, micro, from, to] = one, words = label(one);
    const which = lanes.microbatches && micro >= 0 ? `, microbatch ${micro}` : "";
    return [
      s("rect", { class: `ll-turn ll-${phase}`, x: x(from), width: wide(to - from), y: top(worker), height: HIGH }, s("title", null, `worker ${worker} ${WORDS[phase] ?? phase}${which}: ${seconds(to - from)}`)),
      words && s("text", { x: x((from + to) / 2), y: top(worker) + HIGH / 2, "data-width": (to - from) / whole }, words),
    ];
  };
  const joined = ([op, axis, group, size, from]: Met): Child => {
    const ends = { x1: x(from), x2: x(from), y1: top(Math.min(...group)) + HIGH / 2, y2: top(Math.max(...group)) + HIGH / 2 };
    return s(
      "g",
      { class: "ll-meets", "data-sent": `${op} ${axis}`, onclick: () => meet(op, axis) },
      s("title", null, `${op} over ${axis}, workers ${group.join(", ")}: all of them have come, and each sends ${bytes(size)}`),
      s("line", { class: "ll-wide", ...ends }), s("line", { class: "ll-join", ...ends }),
      group.map((worker) => s("circle", { cx: x(from), cy: top(worker) + HIGH / 2, r: 3 })),
    );
  };
  const letters = sent.map(([source, to, value, size, from, until]) => {
    const isDown = to > source, axis = `${source} → ${to}`;
    const ends = { x1: x(from), x2: x(until), y1: top(source) + (isDown ? HIGH : 0), y2: top(to) + (isDown ? 0 : HIGH) };
    return s("g", { class: "ll-meets", "data-sent": `send ${axis}`, onclick: () => meet("send", axis) }, s("title", null, `${value}, ${bytes(size)}, from worker ${source} to ${to}: ${seconds(until - from)} on its way`), s("line", { class: "ll-wide", ...ends }), s("line", { class: `ll-join${isDown ? "" : " ll-back"}`, ...ends }));
  });
  const height = EVERY * workers - (EVERY - HIGH);
  const hatch = s("pattern", { id: "ll-bubble", class: "ll-bubbles", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, s("path", { d: "M3 0V6" }));
  const picture = s(
    "svg",
    { height, role: "img", "aria-label": `${count(workers, "worker")}: ${toldOf(lanes)}` },
    s("defs", null, hatch),
    Array.from({ length: workers }, (_, worker) => s("rect", { class: "ll-bubble", x: 0, width: "100%", y: top(worker), height: HIGH }, s("title", null, `worker ${worker} waits`))),
    work.map(turn), letters, met.map(joined),
  );
  return div("ll-workers-lanes", h("ul", { "aria-hidden": "true" }, Array.from({ length: workers }, (_, worker) => h("li", null, `worker ${worker}`))), picture);
}

/** Show the names of turns that have room for them. */
export function nameTurns(host: HTMLElement): void {
  const width = host.querySelector(".ll-workers-lanes > svg")?.getBoundingClientRect().width ?? 0, type = typeScale(host);
  for (const one of host.querySelectorAll<SVGTextElement>(".ll-workers-lanes text")) one.style.display = textWidth(one.textContent, 11 * type) + 4 < Number(one.dataset["width"]) * width ? "" : "none";
}

/** What the colours of lanes mean. */
export function lanesKey({ work, microbatches, met, sent, within }: Lanes): Child {
  const phases = [...new Set(work.map(([, phase]) => phase))];
  const swatch = (words: string, of: Child): Child => h("span", null, s("svg", { "aria-hidden": "true" }, of), words);
  const box = (name: string): Child => s("rect", { class: name, x: 1, y: 0.5, width: 16, height: 10 });
  return div(
    "ll-lanes-key",
    phases.map((phase) => swatch(WORDS[phase] ?? phase, box(`ll-turn ll-${phase}`))),
    swatch("waits", box("ll-bubble")),
    (met.length || sent.length) > 0 && swatch(microbatches ? "sent to another stage" : "a collective: all have come", s("line", { class: "ll-join", x1: 9, x2: 9, y1: 0, y2: 11 })),
    span("", within === null ? "threads of one process, which share its cores" : `processes, whose clocks are known to ± ${seconds(within)}`),
  );
}
