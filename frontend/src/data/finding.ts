// What a search finds: nodes, and scopes, ops, passes, rules, kernels and lines by their names.

import type { Run } from "./model";
import { lineOf, query, search, type Query, type Span } from "./query";
import type { Place, Store } from "./store";
import type { Selected } from "./selected";
import { count, whole } from "./units";

/** What a hit is, as it says itself. */
export type HitKind = "node" | "scope" | "op" | "pass" | "rule" | "kernel" | "line";

/** Something that is found by its name. */
export interface Hit {
  readonly kind: Exclude<HitKind, "node">;
  readonly text: string;
  readonly spans: readonly Span[];
  /** What else is known of it, and where that matched. */
  readonly more: string;
  readonly moreSpans: readonly Span[];
  /** What going there selects; null where one only looks elsewhere. */
  readonly what: Selected | null;
  /** The stage to look at; the present one is left only for it. */
  readonly stage: number | null;
}

export interface Found {
  readonly error: string;
  readonly asked: Query;
  /** Hits and rows of nodes, the best ones first. */
  readonly hits: readonly (Hit | number)[];
  /** All nodes that were found. */
  readonly rows: readonly number[];
  /** Those of them that only the graph before the pass has. */
  readonly removed: ReadonlySet<number>;
  /** How many nodes were looked at, of how many. */
  readonly tried: number;
  readonly nodes: number;
}

/** Find what somebody typed at the present place; with `hasBefore` among what the pass has removed as well. */
export function find({ run, place }: Store, typed: string, hasBefore = false): Found {
  const asked = query(run, typed), { stage, firing } = place, alive = run.alive(stage, firing);
  const here = firing < 0 ? run.lines(stage) : [...new Set([...run.lines(Math.max(0, stage - 1)), ...run.lines(stage)])].filter((row) => alive.has(row));
  const gone = hasBefore && stage ? [...run.lines(stage - 1)].filter((row) => alive.row(run.id[row]!) < 0) : [];
  const lines = gone.length ? [...here, ...gone] : here;
  let tried = lines.length;
  const { exact, others } = asked.error ? { exact: [], others: [] } : search(lines, asked, (at) => (tried = at));
  const named: Hit[] = [], parts: Hit[] = [];
  if (asked.isOpen)
    for (const hit of things(run, place, here, asked)) (asked.isExactly(hit.text) ? named : parts).push(hit);
  const hits = [...named, ...exact, ...parts, ...others], rows = [...exact, ...others], all = new Set(gone);
  return { error: asked.error, asked, hits, rows, removed: new Set(rows.filter((row) => all.has(row))), tried, nodes: lines.length };
}

/** All that is no node and matches by its name, or by what is told of it. */
function* things(run: Run, { stage }: Place, lines: ArrayLike<number>, asked: Query): Iterable<Hit> {
  const { kernels, rules, launches } = run.facts;
  const hit = (kind: Hit["kind"], text: string, more: () => string, what: Selected | null, told = "", to: number | null = null): Hit | null => {
    const spans = asked.spansIn(text), moreSpans = spans || !told ? null : asked.spansIn(told);
    if (!spans && !moreSpans) return null;
    return { kind, text, spans: spans ?? [], more: [told, more()].filter(Boolean).join("; "), moreSpans: moreSpans ?? [], what, stage: to };
  };
  const found: (Hit | null)[] = [];
  for (const { path, nodes } of run.viewOf(stage).boxes) found.push(hit("scope", path, () => count(nodes, "node"), { kind: "scope", stage, path }));
  const ops = new Map<string, number[]>();
  for (let at = 0; at < lines.length; at++) {
    const op = run.op(lines[at]!), known = ops.get(op);
    if (known) known.push(lines[at]!);
    else ops.set(op, [lines[at]!]);
  }
  for (const [op, rows] of ops)
    if (asked.spansIn(op)) found.push(hit("op", op, () => count(rows.length, "node"), { kind: "node", stage, ids: rows.map((row) => run.id[row]!) }));
  run.stages.forEach(({ title, before, after, effect }, at) => {
    if (at) found.push(hit("pass", title, () => `pass ${at}: ${effect ? `${whole(before)} → ${count(after, "node")}` : "no change"}`, null, "", at));
  });
  for (const rule of new Set([...Object.keys(rules), ...run.stages.flatMap(({ counts }) => Object.keys(counts))])) {
    const fired = run.stages.flatMap(({ counts }, at) => (Object.hasOwn(counts, rule) ? [at] : []));
    const times = fired.reduce((sum, at) => sum + run.stages[at]!.counts[rule]!, 0), text = rules[rule]?.text;
    const to = fired.includes(stage) || !fired.length ? null : fired[0]!;
    found.push(hit("rule", rule, () => (times ? `fired ×${whole(times)}` : "has not fired"), { kind: "rule", rule }, text, to));
  }
  kernels.forEach(({ name, reason }, kernel) => {
    const runs = (): number => launches.filter((launch) => launch.kernel === kernel).length;
    found.push(hit("kernel", name, () => count(runs(), "launch", "launches"), { kind: "kernel", kernel }, reason));
  });
  run.origins.forEach((_, origin) => found.push(hit("line", lineOf(run, origin), () => "", { kind: "line", origin })));
  for (const one of found) if (one) yield one;
}
