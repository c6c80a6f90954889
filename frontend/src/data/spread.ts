// How the values of a graph are spread over workers: how each is cut, and what is sent for it.

import type { Run, SentRow } from "./model";
import { bytes } from "./units";

/** What is sent at a node: all of its steps together. */
export interface Sending {
  readonly rows: readonly SentRow[];
  /** Null where a size is open. */
  readonly bytes: number | null;
  /** Of the most that is sent at one node, from 0 to 1. */
  readonly share: number;
}

/** The layouts of nodes by their ids, and what is sent at them. */
export interface Spread {
  readonly cuts: ReadonlyMap<number, string>;
  readonly sent: ReadonlyMap<number, Sending>;
}

const known = new WeakMap<Run, Spread>();

/** How a run is spread; null where there is but one worker. */
export function spreadOf(run: Run): Spread | null {
  const { workers } = run.facts;
  if (!workers) return null;
  let found = known.get(run);
  if (!found) known.set(run, (found = made(workers.cuts, workers.sent)));
  return found;
}

function made(layouts: Readonly<Record<string, readonly number[]>>, rows: readonly SentRow[]): Spread {
  const byNode = new Map<number, SentRow[]>();
  for (const row of rows) byNode.set(row[0], [...(byNode.get(row[0]) ?? []), row]);
  const sums = new Map([...byNode].map(([id, steps]) => [id, steps.some((step) => step[4] === null) ? null : steps.reduce((sum, step) => sum + step[4]!, 0)]));
  const most = Math.max(1, ...[...sums.values()].map((sum) => sum ?? 0));
  return {
    cuts: new Map(Object.entries(layouts).flatMap(([layout, ids]) => ids.map((id): [number, string] => [id, layout]))),
    sent: new Map([...byNode].map(([id, steps]) => [id, { rows: steps, bytes: sums.get(id)!, share: (sums.get(id) ?? 0) / most }])),
  };
}

/** The id in the last graph of a node that an earlier one has; the same where nobody knows. */
export function lastOf(run: Run, stage: number, id: number): number {
  const there = spreadOf(run)?.cuts;
  for (let at = stage + 1; at < run.stages.length && there && !there.has(id); at++) {
    const to = run.links(at).forward.get(id);
    if (to?.length) id = to.at(-1)!;
  }
  return id;
}

/** What is sent at a node, if anything is. */
export function sendingAt(run: Run, row: number): Sending | undefined {
  return run.kind(row) === "sent" ? spreadOf(run)?.sent.get(run.id[row]!) : undefined;
}

/** 64 B a worker. */
export function sizeSent({ bytes: size }: Sending): string {
  return `sends ${bytes(size)}`;
}

/** What all rows send together. */
export const totalOf = (rows: readonly SentRow[]): number => rows.reduce((sum, row) => sum + (row[4] ?? 0), 0);

interface Layout {
  readonly dims: readonly string[];
  readonly terms: readonly string[];
  readonly kind: string;
}

/** A layout as `workers/layout.py` writes it: "data, - sum model". */
function read(text: string): Layout {
  const [left, kind, right] = /^(.*?)(?:(?:^| )(sum|max) (.*))?$/.exec(text)!.slice(1);
  const words = (part: string | undefined): string[] => (part ?? "").split(",").map((word) => word.trim()).filter(Boolean);
  return { dims: words(left), terms: words(right), kind: kind ?? "" };
}

const isCut = (word: string): boolean => word !== "-" && word !== "*";

/** What all workers have of a value. */
export const WHOLE = "whole";

/** The class of a layout, which its colour tells: what cuts it, whatever the axis. */
export function classOf(text: string): string {
  if (text.startsWith("stage ")) return text;
  const { dims, terms, kind } = read(text), cut = [...new Set(dims.filter(isCut))].sort();
  return [cut.length && `cut over ${cut.join(" and ")}`, terms.length && `terms of a ${kind} over ${terms.join(" and ")}`].filter(Boolean).join("; ") || WHOLE;
}

/** A layout in few words: (data, –), + model. */
export function layoutWords(text: string): string {
  if (text.startsWith("stage ")) return text;
  const { dims, terms, kind } = read(text);
  if (!dims.some(isCut) && !terms.length) return WHOLE;
  const cut = dims.length ? `(${dims.map((word) => (isCut(word) ? word : "–")).join(", ")})` : "";
  return [cut, terms.length && `${kind} over ${terms.join(", ")}`].filter(Boolean).join(" ");
}
