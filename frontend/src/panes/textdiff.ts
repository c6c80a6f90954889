// What a pass did to the graph's text: the lines that changed and a few around them, each a node.

import { div, fill, h, span } from "../parts/dom";
import { drawn, tokens } from "../parts/highlight";
import { unified, type DiffLine } from "../parts/lines";
import { listing } from "../parts/listing";
import { named } from "../data/named";
import type { Pane, Selected, Store } from "../data/store";
import { css } from "../parts/styles";
import { count } from "../data/units";

css`
.ll-note { padding: 6px 8px; flex: none; margin: 0; }
.ll-is-gone { background: var(--ll-removed-fill); } .ll-is-new { background: var(--ll-added-fill); }
.ll-row.ll-is-gone.ll-lit, .ll-row.ll-is-new.ll-lit { box-shadow: inset 0 0 0 1px var(--ll-accent); }
.ll-is-fold { color: var(--ll-accent); background: var(--ll-panel); }
.ll-sign { flex: none; width: 2ch; font-weight: 700; }
.ll-is-gone > .ll-sign { color: var(--ll-bad); } .ll-is-new > .ll-sign { color: var(--ll-good); }
`;

/** A line of a diff as what stands in its row. */
export function diffRow(line: DiffLine, text: string): Node[] {
  const sign = { same: " ", gone: "−", new: "+", fold: "⋯" }[line.kind];
  return [span("ll-sign", sign), span("", line.kind === "fold" ? `${count(line.count, "line")} as before` : drawn(tokens(text, "form")[0]!))];
}

export function textDiff(store: Store, host: HTMLElement): Pane {
  let lines: readonly DiffLine[] = [];
  let opened = new Set<number>();
  let before: ArrayLike<number> = [];
  let after: ArrayLike<number> = [];
  let place = "";
  const head = div("ll-note");

  const rowOf = (line: DiffLine): number => (line.kind === "gone" ? before[line.old]! : line.kind === "fold" ? -1 : after[line.new]!);
  const what = (at: number): Extract<Selected, { kind: "node" }> | null => {
    const row = rowOf(lines[at]!);
    return row < 0 ? null : { kind: "node", stage: store.place.stage - (lines[at]!.kind === "gone" ? 1 : 0), ids: [store.run.id[row]!] };
  };
  const isLit = (at: number): boolean => {
    const node = what(at);
    return !!node && !!store.related.nodes[node.stage]?.has(node.ids[0]!);
  };
  const list = listing(store, host, {
    level: "stage",
    label: "the text before and after",
    row: (at) => diffRow(lines[at]!, lines[at]!.kind === "fold" ? "" : store.run.text(rowOf(lines[at]!))),
    look: (at) => `ll-is-${lines[at]!.kind}`,
    what,
    isLit,
    act: (at) => {
      const line = lines[at]!;
      if (line.kind === "fold") {
        opened.add(line.old);
        list.show();
      }
      return line.kind === "fold";
    },
    draw: () => {
      const { run } = store;
      const { run: index, stage } = store.place;
      if (place !== (place = `${index} ${stage}`)) opened = new Set();
      after = run.lines(stage);
      before = stage ? run.lines(stage - 1) : after;
      const splices = stage ? run.splices(stage) : [];
      const sum = (of: "gone" | "fresh"): string => count(splices.reduce((total, one) => total + one[of].length, 0), "line");
      const [old, now] = [run.stages[Math.max(0, stage - 1)]!.outputs, run.stages[stage]!.outputs].map((ids) => named(run, ids));
      fill(
        head,
        h("strong", null, run.stages[stage]!.title),
        stage === 0 ? `: ${count(after.length, "line")}` : splices.length ? `: ${sum("gone")} out, ${sum("fresh")} in` : " has changed no line",
        span("ll-faint", old === now ? `; gives ${now}` : `; gave ${old}, gives ${now}`),
      );
      lines = stage
        ? unified(before.length, splices.map(({ place, gone, fresh }) => [place, gone.length, fresh.length]), 3, opened)
        : Array.from(after, (_, at) => ({ kind: "same", old: at, new: at }));
      return [lines.length, lines.reduce((most, line) => (line.kind === "fold" ? most : Math.max(most, run.text(rowOf(line)).length)), 0) + 4];
    },
    light: (own) => {
      if (own || !store.selected || lines.some((_, at) => isLit(at))) return;
      // All of it that is lit is folded away: it comes out.
      const lit = store.related.nodes[store.place.stage];
      const at = Array.prototype.findIndex.call(after, (row: number) => lit?.has(store.run.id[row]!));
      const fold = at < 0 ? undefined : lines.find((one) => one.kind === "fold" && one.new <= at && at < one.new + one.count);
      if (fold?.kind !== "fold") return;
      opened.add(fold.old);
      list.show();
    },
  });
  host.append(head, list.rows.element);
  list.watch.begin();
  return list;
}
