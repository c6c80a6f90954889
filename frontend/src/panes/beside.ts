// Two runs beside each other: passes aligned, what differs marked, and the graphs after a pass of both.

import { count, signed } from "../data/units";
import { div, fill, h } from "../parts/dom";
import { graphView, type GraphView } from "../graph/graph";
import { splices } from "../parts/lines";
import { summed } from "./rerun";
import type { Run } from "../data/model";
import { Store, type Overlay, type Pane } from "../data/store";
import { css } from "../parts/styles";

css`
.ll-beside { display: flex; flex-direction: column; flex: 1 1 0; min-height: 0; }
.ll-aligned { flex: 0 1 42%; overflow: auto; padding: 4px 8px; min-height: 90px; }
.ll-aligned table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
.ll-aligned td, .ll-aligned th { padding: 1px 12px 1px 4px; text-align: left; white-space: nowrap; }
.ll-aligned th { color: var(--ll-faint); font-weight: 600; position: sticky; top: -4px; background: var(--ll-ground); }
.ll-differs > td { background: var(--ll-rewired-fill); } .ll-aligned .ll-lit > td:first-child { box-shadow: inset 3px 0 var(--ll-accent); font-weight: 700; }
.ll-twins { flex: 1 1 0; min-height: 0; display: flex; border-top: 1px solid var(--ll-line); }
`;

/** A pass of either run, or of both, by the number of its stage; -1 where a run has none. */
export interface Aligned {
  readonly title: string;
  readonly one: number;
  readonly other: number;
}

/** The passes of two runs in order, those of one name beside each other. */
export function alignedPasses(one: Run, other: Run): Aligned[] {
  const [a, b] = [one, other].map(({ stages }) => stages.map(({ title }) => title)) as [string[], string[]];
  const found: Aligned[] = [];
  let shift = 0, at = 0;
  for (const [place, gone, put] of [...splices(a, b), [a.length, 0, 0] as const]) {
    for (; at < place; at++) found.push({ title: a[at]!, one: at, other: at + shift });
    for (; at < place + gone; at++) found.push({ title: a[at]!, one: at, other: -1 });
    for (let of = 0; of < put; of++) found.push({ title: b[place + shift + of]!, one: -1, other: place + shift + of });
    shift += put - gone;
  }
  return found;
}

/** Whether a pass did something else in one run than in the other. */
export function differs(one: Run, other: Run, { one: a, other: b }: Aligned): boolean {
  if (a < 0 || b < 0) return !!(one.stages[a] ?? other.stages[b])?.effect;
  const did = ({ before, after, counts }: Run["stages"][number]): string => JSON.stringify([before, after, Object.entries(counts).sort()]);
  return did(one.stages[a]!) !== did(other.stages[b]!);
}

/** Rows after a stage of one run that have no counterpart in another: by op, type, and what they read. */
export function unmatched(one: Run, stage: number, other: Run, otherStage: number): Set<number> {
  const signs = (run: Run, at: number): Map<number, string> => {
    const rows = run.alive(at), own = (row: number): string => `${run.text(row).replace(/%[\w.]+/g, "%")} ${run.kind(row) === "input" ? run.name(row) : ""}`;
    return new Map(Array.from(run.lines(at), (row) => [row, [own(row), ...Array.from(run.sources(row), (id) => (rows.row(id) < 0 ? "?" : own(rows.row(id))))].join("\n")]));
  };
  const left = new Map<string, number>();
  for (const sign of signs(other, otherStage).values()) left.set(sign, (left.get(sign) ?? 0) + 1);
  const found = new Set<number>();
  for (const [row, sign] of signs(one, stage)) {
    const more = left.get(sign) ?? 0;
    if (more) left.set(sign, more - 1);
    else found.add(row);
  }
  return found;
}

function overlay(rows: ReadonlySet<number>): Overlay {
  const tint = "var(--ll-tint-1)", text = "only here";
  return {
    name: text,
    legend: [{ heat: null, text, tint, count: rows.size }],
    heat: () => null,
    text: (row) => (rows.has(row) ? text : ""),
    tint: (row) => (rows.has(row) ? tint : null),
    inBox: (inside) => {
      const many = Array.from(inside).filter((row) => rows.has(row)).length;
      return many ? { heat: null, text: `${count(many, "node")} only here`, tint } : null;
    },
  };
}

export interface Beside extends Pane {
  views(): GraphView[];
  leads(): GraphView[];
}

export function beside(store: Store, host: HTMLElement): Beside {
  let other = -1, at: Aligned | null = null, seen = "";
  let views: GraphView[] = [];
  const table = div("ll-aligned"), twins = div("ll-twins");
  table.tabIndex = 0;
  table.setAttribute("role", "group");
  table.setAttribute("aria-label", "passes of both runs");
  const clear = (): void => {
    for (const view of views) view.dispose();
    views = [];
    fill(twins);
  };
  const runs = (): [number, number] => {
    const { run } = store.place, { length } = store.bundle.runs;
    if (other < 0 || other >= length || other === run) other = run ? run - 1 : 1;
    return run < other ? [run, other] : [other, run];
  };
  const graphs = (first: Run, second: Run): void => {
    const key = at ? `${first.index} ${second.index} ${at.one} ${at.other}` : "";
    if (key === seen) return;
    seen = key;
    clear();
    if (!at) return;
    const { one, other: two } = at;
    for (const [run, stage, twin, twinStage] of [[first, one, second, two], [second, two, first, one]] as const) {
      const half = div("ll-half");
      twins.append(half);
      const name = stage < 0 ? `${run.title}: has no ${at.title}` : `${run.title}, ${stage ? `after ${at.title}` : "as written"}: ${count(run.stages[stage]!.after, "node")}`;
      if (stage < 0 || !run.hasView(stage)) {
        half.append(div("ll-caption ll-one", stage < 0 ? name : `${name}; it is being laid out`));
        continue;
      }
      const own = new Store(store.bundle, { run: run.index, stage });
      const rows = twinStage < 0 ? new Set<number>() : unmatched(run, stage, twin, twinStage);
      half.append(div("ll-caption", rows.size ? `${name}, ${rows.size} only here` : name));
      if (rows.size) own.setOverlay(overlay(rows));
      views.push(graphView(own, half, { side: "after", minimap: false }));
    }
  };
  const draw = (): void => {
    const { bundle, place } = store;
    if (bundle.runs.length < 2) {
      clear();
      seen = "";
      return void fill(table, h("p", { class: "ll-faint" }, "There is one run. “re-run” makes another, and ll.beside(a, b) shows any two."));
    }
    const [a, b] = runs(), first = bundle.runs[a]!, second = bundle.runs[b]!;
    const pairs = alignedPasses(first, second);
    const here = pairs.find((pair) => (place.run === a ? pair.one : pair.other) === place.stage) ?? pairs.at(-1)!;
    at = here;
    const pick = (label: string, now: number, others: number, act: (to: number) => void): HTMLElement => {
      const choice = h("select", { class: "ll-select", "aria-label": label, onchange: () => act(Number(choice.value)) }, bundle.runs.map(({ title }, index) => index !== others && h("option", { value: index, selected: index === now }, title)));
      return choice;
    };
    const turn = (from: number) => (to: number): void => {
      if (from === place.run) store.go({ run: to });
      else {
        other = to;
        draw();
      }
    };
    const cell = (run: Run, stage: number): string => {
      const of = run.stages[stage];
      return !of ? "–" : of.effect ? `${of.before} → ${of.after} ${signed(of.after - of.before)}, ×${of.firings}` : String(of.after);
    };
    const [old, fresh] = [summed(first), summed(second)];
    fill(
      table,
      h(
        "table",
        null,
        h("thead", null, h("tr", null, [["pass"], [pick("the first run", a, b, turn(a))], [pick("the second run", b, a, turn(b))], ["what differs"]].map(([head]) => h("th", { scope: "col" }, head)))),
        h(
          "tbody",
          null,
          pairs.map((pair) => {
            const isOther = differs(first, second, pair), idle = ![first.stages[pair.one], second.stages[pair.other]].some((stage) => stage?.effect);
            if (idle && pair.one !== 0 && pair !== here) return null;
            const go = (): void => {
              const mine = place.run === a ? pair.one : pair.other;
              if (mine >= 0) return store.go({ stage: mine });
              at = pair;
              graphs(first, second);
            };
            const words = !isOther ? "" : pair.one < 0 || pair.other < 0 ? "only here" : "≠";
            return h("tr", { class: `${isOther ? "ll-differs" : ""}${pair === here ? " ll-lit" : ""}`, "data-pass": pair.title }, h("td", null, h("button", { type: "button", class: "ll-link", onclick: go }, pair.one && pair.other ? pair.title : "as written")), h("td", null, cell(first, pair.one)), h("td", null, cell(second, pair.other)), h("td", null, words));
          }),
          [...new Set([...old.keys(), ...fresh.keys()])].map((name) => {
            const [x, y] = [old.get(name), fresh.get(name)];
            return h("tr", null, h("td", { class: "ll-faint" }, name), h("td", null, x?.[1]), h("td", null, y?.[1]), h("td", null, x?.[0] && y && x[0] !== y[0] ? `${signed(Math.round(1000 * (y[0] / x[0] - 1)) / 10)} %` : ""));
          }),
        ),
      ),
    );
    graphs(first, second);
  };
  host.append(div("ll-beside", table, twins));
  draw();
  const stops = [store.on("place", draw), store.on("bundle", () => ((seen = ""), draw()))];
  return { views: () => views, leads: () => views, dispose: () => (stops.forEach((stop) => stop()), clear()) };
}
