// The passes in a row: what each did, and which one we look at.

import { div, fill, h, span } from "./dom";
import { keyed } from "./keys";
import type { Run, Stage } from "./model";
import type { Pane, Store } from "./store";
import { css } from "./styles";
import { count, seconds, signed } from "./units";
import { Watch } from "./watch";

css`
.ll-passes { display: flex; flex: 1 1 0; min-height: 0; overflow: auto hidden; padding: 2px 6px 6px; gap: 2px; }
.ll-round { display: flex; flex: none; gap: 2px; position: relative; padding-top: 15px; }
.ll-round::before { content: attr(aria-label); position: absolute; top: 0; left: 0; right: 0; font-size: 11px; line-height: 13px; padding-left: 4px; }
.ll-round[aria-label]::before { border-top: 2px solid var(--ll-edge); color: var(--ll-faint); }
.ll-pass { display: flex; flex-direction: column; width: 120px; padding: 3px 5px; border: 1px solid var(--ll-line); border-radius: 5px; cursor: pointer; overflow: hidden; font-size: 11.5px; line-height: 15px; white-space: nowrap; }
.ll-pass:hover { background: var(--ll-hover); }
.ll-pass[aria-selected="true"] { background: var(--ll-chosen); outline: 2px solid var(--ll-accent); outline-offset: -2px; }
.ll-pass.ll-lit { border-top: 4px solid var(--ll-high); }
.ll-idle { width: 20px; padding: 3px 1px; color: var(--ll-faint); background: var(--ll-panel); border-style: dashed; writing-mode: vertical-rl; }
.ll-bars { display: flex; align-items: flex-end; gap: 3px; flex: 1 1 0; min-height: 6px; }
.ll-bars > i { flex: 1 1 0; min-height: 1px; }
.ll-key { display: inline-block; width: 10px; height: 10px; margin: 0 3px 0 8px; }
.ll-bars > i, .ll-key { background: var(--ll-accent); }
.ll-bars > i + i, .ll-key + .ll-key { background: repeating-linear-gradient(45deg, var(--ll-heat) 0 2px, transparent 2px 4px); border: 1px solid var(--ll-heat); }
`;

/** Stages that stand together: a round of a repeated pipeline, or what is around it. */
export interface Round {
  readonly round: number;
  readonly from: number;
  readonly to: number;
}

/** Cut the stages into rounds; the first round of a repetition begins where the second one's first pass was before. */
export function rounds(stages: readonly Pick<Stage, "title" | "round">[]): Round[] {
  const starts = new Map<number, number>();
  for (let at = 1; at < stages.length; at++) {
    const { round } = stages[at]!;
    if (round < 2 || stages[at - 1]!.round === round) continue;
    // The round before began with the same passes; the first place that fits, as a round may hold
    // pipelines that count rounds of their own, and begin and end with the same pass.
    let same = 1;
    while (stages[at + same]?.round === round) same++;
    let first = 1;
    const fits = (): boolean => stages[first]!.round === round - 1 && stages.slice(first, Math.min(at, first + same)).every((one, step) => one.title === stages[at + step]!.title);
    while (first < at && !fits()) first++;
    if (first === at) continue;
    if (!starts.has(first)) starts.set(first, round - 1);
    starts.set(at, round);
  }
  const found: Round[] = [];
  let open = 0;
  for (let at = 0; at < stages.length; at++) {
    const start = starts.get(at);
    // Pipelines within a round count from 1 again; if a further round comes, this one is not over.
    const next = [...starts.keys()].sort((one, other) => one - other).find((one) => one > at);
    const ends = open > 1 && stages[at]!.round < open && (next === undefined || starts.get(next) !== open + 1);
    if (start !== undefined) open = start;
    else if (ends) open = 0;
    const last = found.at(-1);
    if (last && start === undefined && !ends) found[found.length - 1] = { ...last, to: at + 1 };
    else found.push({ round: open, from: at, to: at + 1 });
  }
  return found;
}

/** The next pass in a direction; without `all` the next that did something, or the first graph. */
export function nextStage(run: Run, from: number, by: 1 | -1, all = false): number {
  for (let at = from + by; at >= 0 && at < run.stages.length; at += by) if (all || at === 0 || run.stages[at]!.effect) return at;
  return from;
}

/** What a pass did, in words. */
export function told(stage: Stage, at: number): string {
  if (at === 0) return `as written: ${count(stage.after, "node")}`;
  const held = [stage.verified && "well-formed", stage.checked && "values equal"].filter(Boolean).join(", ") || "not verified";
  return `${stage.title}: ${stage.effect ? `${stage.before} → ${count(stage.after, "node")}, ${count(stage.firings, "firing")}` : "without effect"}, ${seconds(stage.seconds)}; ${held}`;
}

let made = 0;

export function timeline(store: Store, host: HTMLElement): Pane {
  const id = `ll-pass-${made++}`;
  const bar = div("ll-bar");
  const list = h("div", { class: "ll-passes", role: "listbox", tabindex: 0, "aria-orientation": "horizontal", "aria-label": "passes" });
  let passes: HTMLElement[] = [];

  const pass = (stage: Stage, at: number, most: { firings: number; seconds: number }): HTMLElement => {
    const tall = (share: number): Node => h("i", { style: `height:${100 * share}%` });
    return h(
      "div",
      { role: "option", id: `${id}-${at}`, class: `ll-pass${stage.effect || !at ? "" : " ll-idle"}`, title: told(stage, at), onclick: () => store.go({ stage: at }) },
      h(stage.effect || !at ? "b" : "span", null, at ? stage.name : "as written"),
      at === 0
        ? count(stage.after, "node")
        : stage.effect && [
            span("", `${stage.before} → ${stage.after} `, h("b", null, signed(stage.after - stage.before))),
            div("ll-bars", tall(stage.firings / most.firings), tall(stage.seconds / most.seconds)),
            span("", `×${stage.firings.toLocaleString("en")} · ${seconds(stage.seconds)}`),
            span("ll-faint", `${stage.verified ? "✓ verified" : "○ not verified"}${stage.checked ? " ≡" : ""}`),
          ],
    );
  };
  const draw = (): void => {
    const { run, bundle } = store;
    const { stages } = run;
    const most = {
      firings: Math.max(1, ...stages.map((stage) => stage.firings)),
      seconds: Math.max(1e-9, ...stages.filter((stage) => stage.effect).map((stage) => stage.seconds)),
    };
    passes = stages.map((stage, at) => pass(stage, at, most));
    fill(list, rounds(stages).map(({ round, from, to }) => h("div", { class: "ll-round", role: "group", "aria-label": round ? `round ${round}` : null }, passes.slice(from, to))));
    const idle = stages.filter((stage, at) => at && !stage.effect).length;
    const runs = h(
      "select",
      { class: "ll-select", "aria-label": "run", onchange: () => store.go({ run: Number(runs.value) }) },
      bundle.runs.map((one, at) => h("option", { value: at, selected: at === store.place.run }, one.title || `run ${at + 1}`)),
    );
    fill(
      bar,
      bundle.runs.length > 1 && [runs, `of ${bundle.runs.length}`],
      h("div", { class: "ll-grow ll-one ll-faint", title: run.pipeline }, run.pipeline || run.title),
      span("ll-faint", `${count(stages.length - 1, "pass", "passes")}, ${idle} without effect; ${seconds(stages.reduce((sum, stage) => sum + stage.seconds, 0))}`),
      h("span", { "aria-hidden": "true" }, h("i", { class: "ll-key" }), "firings", h("i", { class: "ll-key" }), "time"),
    );
    mark();
  };
  const mark = (): void => {
    const { stage } = store.place;
    passes.forEach((one, at) => one.setAttribute("aria-selected", String(at === stage)));
    list.setAttribute("aria-activedescendant", `${id}-${stage}`);
    const at = passes[stage]!;
    if (at.offsetLeft < list.scrollLeft + 20 || at.offsetLeft + at.offsetWidth > list.scrollLeft + list.clientWidth - 20)
      list.scrollLeft = at.offsetLeft - (list.clientWidth - at.offsetWidth) / 2;
  };
  keyed(list, ({ key, shiftKey }) => {
    const { stage } = store.place;
    const by = { ArrowRight: 1, ArrowLeft: -1 }[key] as 1 | -1 | undefined;
    const to = by ? nextStage(store.run, stage, by, shiftKey) : { Home: 0, End: passes.length - 1 }[key];
    if (to !== undefined) store.go({ stage: to });
    return to !== undefined;
  });
  const watch = new Watch(store, host, {
    level: "run",
    draw,
    light: () => {
      // Where something happened to what is selected.
      const firings = store.selected ? store.related.firings : [];
      passes.forEach((one, at) => one.classList.toggle("ll-lit", !!firings[at]?.size));
    },
  });
  const stop = store.on("place", () => passes.length === store.run.stages.length && mark());
  host.append(bar, list);
  watch.begin();
  return { dispose: () => (watch.dispose(), stop()) };
}
