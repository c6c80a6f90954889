// The passes in a row: what each did, and which one we look at.

import { div, fill, h, span } from "../parts/dom";
import { keyed } from "../parts/keys";
import type { Run, Stage } from "../data/model";
import type { Pane, Store } from "../data/store";
import { css } from "../parts/styles";
import { count, seconds, signed } from "../data/units";
import { Watch } from "../parts/watch";

css`
.ll-timeline { flex: none; border-bottom: 1px solid var(--ll-line); background: var(--ll-panel); }
.ll-timeline > .ll-bar { border: 0; padding: 3px 8px 0; gap: 10px; font-size: 11.5px; flex-wrap: nowrap; } .ll-timeline > .ll-bar > :last-child { flex: none; }
.ll-passes { display: flex; overflow: auto hidden; padding: 3px 8px 7px; gap: 4px; }
.ll-round { min-width: calc(52px * var(--ll-type, 1)); display: flex; flex: none; gap: 4px; position: relative; padding-top: calc(15px * var(--ll-type, 1)); }
.ll-round:not([aria-label]):only-child { padding-top: 0; }
.ll-round::before { content: attr(aria-label); position: absolute; top: 0; left: 0; right: 0; font-size: 11px; line-height: 12px; padding-left: 5px; white-space: nowrap; }
.ll-round[aria-label]::before { border-left: 2px solid var(--ll-edge); color: var(--ll-faint); }
.ll-pass { display: flex; flex-direction: column; min-width: calc(112px * var(--ll-type, 1)); padding: 3px 7px 5px; border: 1px solid var(--ll-line); border-radius: 6px; background: var(--ll-ground); cursor: pointer; overflow: hidden; font-size: 11.5px; line-height: 15px; white-space: nowrap; font-variant-numeric: tabular-nums; }
.ll-pass:hover { border-color: var(--ll-edge); background: var(--ll-hover); }
.ll-pass[aria-selected="true"] { background: var(--ll-chosen); border-color: var(--ll-accent); box-shadow: inset 0 0 0 1px var(--ll-accent); }
.ll-pass.ll-lit { box-shadow: inset 0 3px var(--ll-high); }
.ll-pass.ll-lit[aria-selected="true"] { box-shadow: inset 0 3px var(--ll-high), inset 0 0 0 1px var(--ll-accent); }
.ll-fell { color: var(--ll-good); } .ll-grew { color: var(--ll-odd); }
.ll-skipped { display: flex; flex: none; gap: 2px; position: relative; min-width: calc(44px * var(--ll-type, 1)); padding: 12px 2px calc(22px * var(--ll-type, 1)); justify-content: center; }
.ll-skipped::after { content: attr(data-count); position: absolute; bottom: 6px; left: 0; right: 0; text-align: center; font-size: 11px; line-height: 14px; white-space: nowrap; color: var(--ll-faint); }
.ll-idle { min-width: 0; width: 7px; padding: 0; border: 1px dashed var(--ll-edge); border-radius: 3px; background: none; color: var(--ll-faint); text-indent: 9px; }
.ll-idle[aria-selected="true"] { width: auto; padding: 2px 6px; text-indent: 0; border-style: solid; }
.ll-bars { margin-top: auto; padding-top: 3px; display: grid; gap: 2px; }
.ll-bars > i { height: 4px; min-width: 1px; border-radius: 2px; }
.ll-key { display: inline-block; width: 16px; height: 5px; margin: 0 4px 2px 10px; border-radius: 2px; }
.ll-bars > i, .ll-key { background: var(--ll-accent); }
.ll-bars > i + i, .ll-key.ll-hatched { background: repeating-linear-gradient(115deg, var(--ll-heat) 0 3px, transparent 3px 5px); box-shadow: inset 0 0 0 1px var(--ll-heat); }
.ll-runs { max-width: 60%; }
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

/** The last pass that changed what a graph consists of, and not only the order of its nodes; the last of all if none did. */
export function lastChange(run: Run): number {
  const nodes = (at: number): string => Array.from(run.lines(at), (row) => `${run.id[row]}`).sort().join();
  let at = nextStage(run, run.stages.length, -1);
  while (at && nodes(at) === nodes(at - 1)) at = nextStage(run, at, -1);
  return at || run.stages.length - 1;
}

/** What a pass did, in words. */
export function told(stage: Stage, at: number): string {
  if (at === 0) return `as written: ${count(stage.after, "node")}`;
  const held = [stage.verified && "well-formed", stage.checked && "values equal"].filter(Boolean).join(", ") || "not verified";
  return `${stage.title}: ${stage.effect ? `${stage.before} → ${count(stage.after, "node")}, ${count(stage.firings, "firing")}` : "without effect"}${stage.seconds ? `, ${seconds(stage.seconds)}; ${held}` : ""}`;
}

/** How long a pass took, and what was looked at then; of one that was not timed nothing is said. */
const took = ({ seconds: time, verified, checked }: Stage): string => (time ? ` · ${seconds(time)} ${verified ? "✓" : "○"}${checked ? "≡" : ""}` : "");

let made = 0;

export function timeline(store: Store, host: HTMLElement): Pane {
  const id = `ll-pass-${made++}`;
  const bar = div("ll-bar");
  const list = h("div", { class: "ll-passes", role: "listbox", tabindex: 0, "aria-orientation": "horizontal", "aria-label": "passes" });
  let passes: HTMLElement[] = [];

  const pass = (stage: Stage, at: number, most: { firings: number; seconds: number }): HTMLElement => {
    const wide = (share: number): Node => h("i", { style: `width:${100 * share}%` });
    const by = stage.after - stage.before;
    return h(
      "div",
      { role: "option", id: `${id}-${at}`, class: `ll-pass${stage.effect || !at ? "" : " ll-idle"}`, title: told(stage, at), onclick: () => store.go({ stage: at }) },
      h(stage.effect || !at ? "b" : "span", null, at ? stage.name : "as written"),
      at === 0
        ? count(stage.after, "node")
        : stage.effect && [
            span("", `${stage.before.toLocaleString("en")} → ${stage.after.toLocaleString("en")} `, h("b", { class: by < 0 ? "ll-fell" : by > 0 ? "ll-grew" : "ll-faint" }, signed(by))),
            span("ll-faint", `×${stage.firings.toLocaleString("en")}${took(stage)}`),
            div("ll-bars", wide(stage.firings / most.firings), wide(stage.seconds / most.seconds)),
          ],
    );
  };
  /** Passes in a row, those without effect that follow each other together. */
  const gathered = (from: number, to: number): Node[] => {
    const found: Node[] = [];
    for (let at = from; at < to; at++) {
      const first = at;
      while (at < to && at && !store.run.stages[at]!.effect) at++;
      const idle = passes.slice(first, at);
      if (idle.length) found.push(h("div", { class: "ll-skipped", "data-count": `${idle.length} idle` }, idle));
      if (at < to) found.push(passes[at]!);
    }
    return found;
  };
  const draw = (): void => {
    const { run, bundle } = store;
    const { stages } = run;
    const most = {
      firings: Math.max(1, ...stages.map((stage) => stage.firings)),
      seconds: Math.max(1e-9, ...stages.filter((stage) => stage.effect).map((stage) => stage.seconds)),
    };
    passes = stages.map((stage, at) => pass(stage, at, most));
    fill(list, rounds(stages).map(({ round, from, to }) => h("div", { class: "ll-round", role: "group", "aria-label": round ? `round ${round}` : null }, gathered(from, to))));
    const total = stages.reduce((sum, stage) => sum + stage.seconds, 0);
    const idle = stages.filter((stage, at) => at && !stage.effect).length;
    const all = `${count(stages.length - 1, "pass", "passes")}, ${idle} without effect${total ? `; ${seconds(total)}` : ""}`;
    const runs = h(
      "select",
      { class: "ll-select ll-runs", "aria-label": "run", onchange: () => store.go({ run: Number(runs.value) }) },
      bundle.runs.map((one, at) => h("option", { value: at, selected: at === store.place.run }, one.title || `run ${at + 1}`)),
    );
    fill(
      bar,
      bundle.runs.length > 1 && [runs, `of ${bundle.runs.length}`],
      h("div", { class: "ll-grow ll-one ll-faint", title: run.pipeline }, run.pipeline || run.title),
      h("span", { class: "ll-one ll-faint", title: all }, all),
      h("span", { "aria-hidden": "true", class: "ll-faint" }, h("i", { class: "ll-key" }), "firings", h("i", { class: "ll-key ll-hatched" }), "time"),
    );
    mark();
  };
  const mark = (): void => {
    const { stage } = store.place;
    passes.forEach((one, at) => one.setAttribute("aria-selected", String(at === stage)));
    list.setAttribute("aria-activedescendant", `${id}-${stage}`);
    const at = passes[stage]!.getBoundingClientRect(), { left, right } = list.getBoundingClientRect();
    if (at.left < left + 20 || at.right > right - 20) list.scrollLeft += at.left - left - (right - left - at.width) / 2;
  };
  keyed(list, ({ key, shiftKey }) => {
    const { stage } = store.place;
    const by = { ArrowRight: 1, ArrowLeft: -1 }[key] as 1 | -1 | undefined;
    const to = by ? nextStage(store.run, stage, by, shiftKey) : { Home: 0, End: shiftKey ? passes.length - 1 : lastChange(store.run) }[key];
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
  host.append(div("ll-timeline", bar, list));
  watch.begin();
  // In a notebook it is drawn before it has a width.
  const observer = typeof ResizeObserver === "undefined" ? null : new ResizeObserver(mark);
  observer?.observe(list);
  return { dispose: () => (watch.dispose(), observer?.disconnect(), stop()) };
}
