// The nodes as a table: the alternative to the picture, for whoever does not see it or wants to sort.

import { h, set } from "../parts/dom";
import type { Run } from "../data/model";
import { lineOf } from "../data/query";
import { Rows } from "../parts/rows";
import type { Pane, Store } from "../data/store";
import { css } from "../parts/styles";
import { bytes, many } from "../data/units";

css`
.ll-heads { position: sticky !important; top: 0; z-index: 2; background: var(--ll-panel); border-bottom: 1px solid var(--ll-line); width: max-content; }
.ll-cells { display: grid; grid-template-columns: 15ch 14ch 18ch 7ch 10ch 11ch 11ch 16ch 24ch 42ch 18ch; font-size: 12px; line-height: 24px; width: max-content; }
.ll-cells > * { padding: 0 6px; overflow: hidden; text-overflow: ellipsis; }
.ll-cells > .ll-sum { text-align: right; }
.ll-heads button { font: inherit; font-weight: 600; color: inherit; background: none; border: 0; padding: 0; cursor: pointer; }
.ll-nodes .ll-row { padding: 0; border-bottom: 1px solid var(--ll-line); }
.ll-heads .ll-cells { padding-left: 3px; }
`;

interface Column {
  text(run: Run, row: number): string;
  /** What it is sorted by, where that is not text. */
  value?(run: Run, row: number): number;
}

const amount = (of: "flops" | "bytes", words: (value: number) => string): Column => ({
  text: (run, row) => (Number.isNaN(run[of][row]!) ? "?" : run[of][row] ? words(run[of][row]!) : ""),
  value: (run, row) => run[of][row] || 0,
});
const COLUMNS: Readonly<Record<string, Column>> = {
  name: { text: (run, row) => `%${run.name(row)}` },
  op: { text: (run, row) => run.op(row) },
  shape: { text: (run, row) => run.shape(row) },
  dtype: { text: (run, row) => run.dtype(row) },
  kind: { text: (run, row) => run.kind(row) },
  flops: amount("flops", many),
  bytes: amount("bytes", bytes),
  colour: { text: () => "" },
  scope: { text: (run, row) => run.scope(row) },
  line: { text: (run, row) => lineOf(run, run.origin[row]!) },
  "made by": { text: (run, row) => run.rule(row) },
};
const collator = new Intl.Collator("en", { numeric: true });

/** A table of all nodes at the present place. */
export function table(store: Store, host: HTMLElement): Pane {
  let rows: number[] = [], by = "", way = 1, isStale = true;
  // What the picture says by colours stands in a column.
  const columns = (): [string, Column][] => {
    const { overlay } = store;
    const said: Column | null = overlay && { text: (_, row) => overlay.text(row), value: (_, row) => overlay.heat(row) ?? 0 };
    if (said && overlay?.tint) delete said.value;
    return Object.entries(COLUMNS).map(([name, column]) => (name === "colour" ? [overlay?.name ?? "", said ?? column] : [name, column]));
  };
  const cells = (draw: (name: string, column: Column) => HTMLElement): HTMLElement =>
    h("div", { class: "ll-cells", role: "presentation" }, columns().map(([name, column]) => set(draw(name, column), { class: column.value ? "ll-sum" : null })));
  const head = h("div", { role: "row", "aria-rowindex": 1, class: "ll-heads" });
  const list = new Rows({
    label: "Nodes",
    class: "ll-nodes",
    height: 25,
    head: h("div", { role: "rowgroup", class: "ll-heads" }, head),
    draw: (at) =>
      cells((name, column) => {
        const text = column.text(store.run, rows[at]!);
        return h("div", { role: name === "name" ? "rowheader" : "gridcell", title: text.length > 12 ? text : null }, text);
      }),
    look: (at) => (store.selected?.kind === "node" && store.selected.ids.includes(store.run.id[rows[at]!]!) ? "ll-lit" : ""),
    act: (at) => store.select({ kind: "node", stage: store.place.stage, ids: [store.run.id[rows[at]!]!] }),
    follow: true,
  });
  host.append(list.element);

  const show = (): void => {
    const { run, place } = store;
    const alive = run.alive(place.stage, place.firing);
    rows = [...run.lines(place.stage)].filter((row) => alive.has(row));
    // In the middle of a pass there is what is in neither graph.
    if (rows.length < alive.size) rows = Array.from({ length: run.rows }, (_, row) => row).filter((row) => alive.has(row));
    const column = columns().find(([name]) => name === by)?.[1];
    if (column?.value) {
      const { value } = column;
      rows.sort((a, b) => way * (value(run, a) - value(run, b)));
    } else if (column) {
      const texts = new Map(rows.map((row) => [row, column.text(run, row)]));
      rows.sort((a, b) => way * collator.compare(texts.get(a)!, texts.get(b)!));
    }
    const named = cells((name, { value }) =>
      h("div", { role: "columnheader", "aria-sort": name && name === by ? (way > 0 ? "ascending" : "descending") : null }, h("button", { type: "button", title: `Sort by ${name}`, hidden: !name, onclick: () => sort(name, !!value) }, name, name && name === by && (way > 0 ? " ↑" : " ↓"))),
    );
    head.replaceChildren(named);
    list.show(rows.length);
  };
  const sort = (name: string, isAmount: boolean): void => {
    // Of amounts the most first; a third time: the graph's order again.
    const first = isAmount ? -1 : 1;
    if (by !== name) [by, way] = [name, first];
    else if (way === first) way = -first;
    else by = "";
    store.say(by ? `Sorted by ${by}, ${way > 0 ? "least" : "most"} first` : "In the order of the graph");
    show();
    head.querySelectorAll("button")[columns().findIndex(([one]) => one === name)]?.focus();
  };
  const later = (act: () => void): (() => void) => () => {
    if (host.hidden) isStale = true;
    else act();
  };
  const light = (): void => {
    const id = store.selected?.kind === "node" ? store.selected.ids[0] : undefined;
    list.light();
    if (id !== undefined) list.reveal(rows.findIndex((row) => store.run.id[row] === id));
  };
  const seen = (): void => {
    if (!isStale || host.hidden) return;
    isStale = false;
    show();
    light();
  };
  host.addEventListener("ll-shown", seen);
  const stops = [store.on("place", later(show)), store.on("bundle", later(show)), store.on("overlay", later(show)), store.on("selection", later(light)), () => list.dispose()];
  seen();
  return { dispose: () => stops.forEach((stop) => stop()) };
}
