// Everything that is known about what is selected, in a panel beside the picture.

import { fill, h, link, type Child } from "../parts/dom";
import { valuesOf } from "./histogram";
import type { Live } from "../data/live";
import type { SentRow } from "../data/model";
import { lineOf } from "../data/query";
import { lastOf, layoutWords, sendingAt, spreadOf } from "../data/spread";
import type { Pane, Selected, Store } from "../data/store";
import { css } from "../parts/styles";
import { bytes, count, many, seconds } from "../data/units";
import { wordsOf } from "../data/words";
import { questions } from "./whynot";
import { remarksOf } from "./remarks";

css`
.ll-side { overflow: auto; padding: 8px 12px 16px; border-left: 1px solid var(--ll-line); flex: 0 1 310px; min-width: 210px; overflow-wrap: anywhere; }
.ll-side h2 { font: 600 13px var(--ll-mono); margin: 0 0 6px; }
.ll-side h3 { font-size: 12px; font-weight: 600; margin: 12px 0 3px; color: var(--ll-faint); }
.ll-side pre { padding: 5px 7px; margin: 4px 0; background: var(--ll-panel); border-radius: 4px; white-space: pre-wrap; }
.ll-side dl { display: grid; grid-template-columns: fit-content(45%) minmax(0, 1fr); gap: 2px 10px; margin: 0; }
.ll-side dt { color: var(--ll-faint); }
.ll-side dd { margin: 0; }
.ll-many { display: block; background: linear-gradient(var(--ll-chosen) 0 0) 0 50% / var(--ll-share) 14px no-repeat; padding-left: 4px; }
.ll-side ol { margin: 0; padding-left: 18px; }
.ll-side .ll-link { font: 12px/1.5 var(--ll-mono); }
`;

/** How many links a list has before it says how many more there are. */
const MOST = 24;

export function side(store: Store, host: HTMLElement, live: Live): Pane {
  for (const [name, value] of Object.entries({ class: "ll-side", role: "complementary", tabindex: "0", "aria-label": "What is known of the selection" })) host.setAttribute(name, value);
  const draw = (): void => {
    if (host.hidden) return;
    fill(host, told(store, live));
    host.scrollTop = 0;
  };
  const stops = [store.on("selection", draw), store.on("place", draw), store.on("bundle", draw)];
  host.addEventListener("ll-shown", draw);
  draw();
  return { dispose: () => stops.forEach((stop) => stop()) };
}

type Fact = readonly [name: string, value: Child];

const isThere = (what: Child): boolean => what !== "" && what !== false && what !== null && what !== undefined && !(Array.isArray(what) && !what.length);
const facts = (rows: readonly Fact[]): Child => rows.some(([, what]) => isThere(what)) && h("dl", null, rows.filter(([, what]) => isThere(what)).map(([name, what]) => [h("dt", null, name), h("dd", null, what)]));
const titled = (title: string, what: Child): Child => isThere(what) && [h("h3", null, title), what];
const listed = <T>(all: Iterable<T>, draw: (one: T) => Child): Child[] => {
  const list = [...all], rest = list.length - MOST;
  return [...list.slice(0, MOST).map((one) => h("div", null, draw(one))), rest > 0 && `and ${rest.toLocaleString("en")} more`].filter(isThere);
};

function told(store: Store, live: Live): Child[] {
  const { run, place, selected, related } = store;
  const { stage, firing } = place;
  const { launches, kernels, rules, times } = run.facts;
  const alive = run.alive(stage, firing);
  const stageName = (at: number): string => run.stages[at]!.name || run.stages[at]!.title;
  const where = stage ? `after ${stageName(stage)}` : "as written";
  // Where it is not in the graph at hand, as it was at last.
  const rowOf = (id: number): number => (alive.row(id) < 0 ? (run.rowsOf(id).at(-1) ?? -1) : alive.row(id));
  const to = (words: Child, what: Selected): Child => link(words, () => store.select(what));
  const nodes = (ids: Iterable<number>): Child[] =>
    listed([...ids].map(rowOf).filter((row) => row >= 0), (row) => [to(`%${run.name(row)}`, { kind: "node", stage, ids: [run.id[row]!] }), ` ${run.op(row)} `, h("span", { class: "ll-faint" }, run.type(row))]);
  const line = (origin: number): Child => to(lineOf(run, origin), { kind: "line", origin });
  const rule = (name: string): Child => to(name, { kind: "rule", rule: name });
  const runsIn = (launch: number): Child => {
    const { name, kernel } = launches[launch]!;
    const took = times.flatMap(({ device, how, rows }) => rows.filter((one) => one.launch === launch).map(({ median }) => `${seconds(median)} ${how} on ${device}`));
    return [to(name, { kind: "launch", launch }), ", kernel ", to(kernels[kernel]?.name ?? "?", { kind: "kernel", kernel }), took.map((one) => `, ${one}`)];
  };
  const amounts = (rows: readonly number[]): Fact[] => {
    const sum = (column: Float64Array): number => rows.reduce((all, row) => all + column[row]!, 0);
    const said = (value: number, words: string): string => (Number.isNaN(value) ? "depends on open sizes" : value ? words : "none");
    const [flops, moved] = [sum(run.flops), sum(run.bytes)];
    return [["flops", said(flops, `${many(flops)} flop`)], ["bytes", said(moved, `${bytes(moved)} read and written`)]];
  };
  const ops = (rows: readonly number[]): Child => {
    const found = new Map<string, number>();
    for (const row of rows) found.set(run.op(row), (found.get(run.op(row)) ?? 0) + 1);
    const most = Math.max(...found.values());
    return facts([...found].sort((a, b) => b[1] - a[1]).slice(0, MOST).map(([op, times]) => [op, h("span", { class: "ll-many", style: `--ll-share:${(100 * times) / most}%` }, times.toLocaleString("en"))]));
  };

  const spread = spreadOf(run);
  const sentRows = (rows: readonly SentRow[]): Child => listed(rows, ([, op, axis, of, size, why]) => [`${op} of ${of} over ${axis}, ${bytes(size)} from each worker: `, why]);

  if (selected?.kind === "node" && selected.ids.length === 1) {
    const id = selected.ids[0]!, row = rowOf(id), origin = run.origin[row] ?? -1, isHere = alive.row(id) >= 0;
    if (row < 0) return ["This node is not in this run."];
    const { inputs, outputs } = run.stages[stage]!, sending = sendingAt(run, row);
    const readers = run.readersOf(id).filter((one) => !isHere || alive.has(one));
    const became = [...related.nodes[stage] ?? []];
    return [
      h("h2", null, `%${run.name(row)} · ${/^(input|parameter)$/.test(run.kind(row)) ? run.op(row) : run.label(row)}`),
      !isHere && h("div", { class: "ll-sorry" }, `It is not in the graph ${where}. `, became.length ? ["There it is ", nodes(became)] : "Nothing there comes from it."),
      h("pre", null, run.text(row)),
      facts([
        ["shape", run.shape(row)],
        ["dtype", run.dtype(row)],
        ["kind", [run.kind(row), inputs.includes(id) && run.kind(row) !== "input" && ", an input", outputs.includes(id) && ", an output"]],
        ...(sending ? [["sends", `${bytes(sending.bytes)} from each worker; it computes nothing`] as Fact] : amounts([row])),
        ["workers have it", spread?.cuts.has(lastOf(run, stage, id)) && layoutWords(spread.cuts.get(lastOf(run, stage, id))!)],
        ["scope", run.scope(row) && to(run.scope(row).split(/(?<=\.)/).flatMap((part) => [part, h("wbr")]), { kind: "scope", stage, path: run.scope(row) })],
        ["written at", origin >= 0 && line(origin)],
        ["made by", run.rule(row) && rule(run.rule(row))],
      ]),
      titled("Sent in each run", sending && sentRows(sending.rows)),
      titled("Reads", nodes(run.sources(row))),
      titled("Read by", nodes(readers.map((one) => run.id[one]!))),
      titled("Runs in", listed(launches.flatMap(({ node, makes, covers }, at) => ([node, ...makes, ...covers].includes(id) ? [at] : [])), runsIn)),
      titled(
        "Story",
        h("ol", null, run.story(id).slice(0, MOST).map((one) => {
          const isOut = one.what === "taken out";
          const others = (isOut ? one.into : one.from).filter((other) => other !== id);
          return h("li", null, link(one.stage ? stageName(one.stage) : "as written", () => store.go({ stage: one.stage })), one.stage > 0 && [`: ${one.what} by `, rule(one.rule), one.because && `, ${one.because}`], others.length > 0 && h("div", null, isOut ? "became " : "from ", nodes(others)));
        })),
      ),
      titled("Why not …", questions(store, live, id)),
      titled("Values", valuesOf(live, { run: place.run, stage: isHere ? stage : selected.stage, id })),
    ];
  }
  if (!selected) {
    return [
      h("h2", null, run.title || "graph"),
      h("p", null, `${count(alive.size, "node")} ${where}. Select one to see what is known of it.`),
      titled("Where it is from", remarksOf(store)),
      facts([["inputs", String(run.stages[stage]!.inputs.length)], ["outputs", nodes(run.stages[stage]!.outputs)]]),
      titled("Ops", ops([...run.lines(stage)])),
      titled("Passes", run.pipeline && h("pre", null, run.pipeline)),
    ];
  }
  const rows = [...related.nodes[stage] ?? []].map((id) => alive.row(id)).filter((row) => row >= 0);
  const text = selected.kind === "rule" ? rules[selected.rule]?.text : selected.kind === "kernel" ? kernels[selected.kernel]?.definition : selected.kind === "line" ? run.origins[selected.origin]?.code : "";
  return [
    h("h2", null, wordsOf(store, selected)),
    text && h("pre", null, text),
    rows.length ? facts(amounts(rows)) : h("p", null, `No node ${where} has to do with it.`),
    titled(`Nodes ${where}`, nodes(rows.map((row) => run.id[row]!))),
    titled("Ops", ops(rows)),
    titled("Written at", listed(related.origins, line)),
    titled("Runs in", listed(related.launches, runsIn)),
  ];
}
