// The cells or files that wrote the graph; a line lights what became of it, and is lit by it.

import { h, s, span, type Child } from "../parts/dom";
import { drawn, tokens, widest, type Token } from "../parts/highlight";
import { listing } from "../parts/listing";
import { lineTimes, type LineTimes } from "../data/linetimes";
import type { Origin } from "../data/model";
import type { Pane, Selected, Store } from "../data/store";
import { css } from "../parts/styles";
import { seconds } from "../data/units";
import { HOW, tookBy } from "./took";

css`
.ll-cell { background: var(--ll-panel); font-weight: 600; }
.ll-line-took { flex: none; width: 26px; height: 12px; margin-right: 6px; } .ll-python .ll-lineno { min-width: 3ch; margin-right: 6px; }
`;

interface Line {
  readonly number: number; // 0: a title
  readonly tokens: readonly Token[];
  /** Into the run's origins; more than one where a line was run twice. */
  readonly origins: readonly number[];
}

/** More empty lines than this are lines that nobody knows. */
const GAP = 3;

/** Lines of all cells; where their text is not known, those lines that wrote nodes. */
export function cellLines(cells: readonly { title: string; text: string }[], origins: readonly Origin[]): Line[] {
  const found: Line[] = [];
  const known = new Map(cells.map((cell) => [cell.title, cell.text.replace(/\n+$/, "").split("\n")]));
  const places = new Map<string, number[]>();
  origins.forEach(({ file, line, code }, at) => {
    const key = `${file}\n${line}`;
    places.set(key, [...(places.get(key) ?? []), at]);
    if (cells.some((cell) => cell.title === file)) return;
    const lines = known.get(file) ?? [];
    lines[line - 1] = code;
    known.set(file, lines);
  });
  for (const [file, lines] of known) {
    found.push({ number: 0, tokens: [["", file]], origins: [] });
    const all = tokens(Array.from(lines, (line) => line ?? "").join("\n"), "python");
    // Of a file that is known by some lines only those are shown; between them Python sends empty ones.
    const gaps = new Set<number>();
    for (let at = 0, first = 0; at <= all.length; at++) {
      if (at < all.length && !lines[at]?.trim()) continue;
      if (at - first > GAP) for (let empty = first; empty < at; empty++) gaps.add(empty);
      first = at + 1;
    }
    all.forEach((line, at) => at in lines && !gaps.has(at) && found.push({ number: at + 1, tokens: line, origins: places.get(`${file}\n${at + 1}`) ?? [] }));
  }
  return found;
}

export function cells(store: Store, host: HTMLElement): Pane {
  let lines: Line[] = [];
  let took: LineTimes | null = null;
  const secondsOf = ({ origins }: Line): number => origins.reduce((sum, origin) => sum + (took?.seconds.get(origin) ?? 0), 0);
  /** A bar of what a line takes of the whole run. */
  const bar = (line: Line): Child => {
    if (!took) return null;
    const own = secondsOf(line);
    const words = `${seconds(own)}, ${Math.round((100 * own) / took.total)} % of the time on ${took.device} (${HOW[took.how]})`;
    return s("svg", { class: "ll-line-took", ...(own ? { role: "img", "aria-label": words } : { "aria-hidden": "true" }) }, own > 0 && [s("title", null, words), s("rect", { class: tookBy(0, took.how), x: 1, y: 2, height: 8, width: `${(92 * own) / took.total + 3}%` })]);
  };
  const note = h("p", { class: "ll-note" }, "Nobody knows which lines wrote this graph.");
  const list = listing(store, host, {
    level: "run",
    label: "the cells that wrote the graph",
    class: "ll-mono ll-python",
    draw: () => {
      lines = cellLines(store.run.facts.cells, store.run.origins);
      took = lineTimes(store.run);
      note.hidden = lines.length > 0;
      return [lines.length, widest(lines.map((line) => line.tokens)) + 8];
    },
    row: (at) => [lines[at]!.number > 0 && [span("ll-lineno", lines[at]!.number), bar(lines[at]!)], span("", drawn(lines[at]!.tokens))],
    look: (at) => (lines[at]!.number ? (lines[at]!.origins.length ? "ll-known" : "") : "ll-cell"),
    isLit: (at) => lines[at]!.origins.some((one) => store.related.origins.has(one)),
    what: (at): Selected | null => {
      const [origin] = lines[at]!.origins;
      return origin === undefined ? null : { kind: "line", origin };
    },
  });
  host.append(note, list.rows.element);
  list.watch.begin();
  // A file begins with what it imports: one sees the line that takes most, or the first that wrote something.
  const most = Math.max(...lines.map(secondsOf));
  if (!store.selected) list.rows.reveal(lines.findIndex((line) => (most > 0 ? secondsOf(line) === most : line.origins.length > 0)));
  return list;
}
