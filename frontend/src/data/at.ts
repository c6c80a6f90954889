// Where one looks, as a text: "recognise/3/%softmax". The grammar stands in viz/live/at.py, which reads the same.
// A fragment is a stranger's: whatever is not exactly of the form, or is not there, is a sentence.

import type { Bundle } from "./bundle";
import type { Run } from "./model";
import type { Place, Selected, Store } from "./store";

export interface At {
  readonly place: Place;
  readonly selected: Selected | null;
}

const LONGEST = 400;

/** What a text names; without a pass one stays, or begins where the run does. An error says what is not there, and what is nearest. */
export function readAt(text: string, { runs }: Bundle, from: Place): At {
  // eslint-disable-next-line no-control-regex
  if (text.length > LONGEST || /[\u0000-\u001f\u007f\u200b-\u200f\u2028-\u202e\u2066-\u2069]/.test(text)) throw new Error("The link names no place.");
  const [, runText, rest] = /^(?:(\d{1,4}):)?([^]*)$/.exec(text)!;
  const index = Number(runText ?? 0), run = runs[index];
  if (!run) throw new Error(`There is no run ${index}: they go from 0 to ${runs.length - 1}.`);
  const [name = "", ...more] = rest!.split("/");
  const stage = name ? stageOf(run, name) : index === from.run ? from.stage : run.first;
  let firing = -1;
  if (/^\d{1,7}$/.test(more[0] ?? "")) {
    firing = Number(more.shift());
    const most = run.stages[stage]!.firings;
    if (firing > most) throw new Error(`${run.stages[stage]!.title} has ${most === 1 ? "1 firing" : `${most} firings`}, not ${firing}.`);
  }
  const selection = more.join("/");
  return { place: { run: index, stage, firing }, selected: selection ? selectedOf(run, stage, selection) : null };
}

function stageOf({ stages }: Run, name: string): number {
  if (name === "written") return 0;
  const is = (at: number, what: string): boolean => stages[at]!.name === what || stages[at]!.title === what;
  const [, own, number] = /^(?:([^]*)@)?(\d{1,6})$/.exec(name) ?? [];
  if (number !== undefined) {
    const at = Number(number);
    if (at < stages.length && (own === undefined || is(at, own))) return at;
    throw new Error(`There is no pass “${name}”: ${at < stages.length ? `pass ${at} is ${stages[at]!.name}` : `they go from 0 to ${stages.length - 1}`}.`);
  }
  const found = stages.flatMap((_, at) => (at && is(at, name) ? [at] : []));
  if (!found.length) throw missing("pass", name, stages.slice(1).map((one) => one.name));
  return found.findLast((at) => stages[at]!.firings) ?? found.at(-1)!;
}

function selectedOf(run: Run, stage: number, text: string): Selected {
  const { kernels, launches, buffers, rules } = run.facts;
  const stages = [...new Set([stage, Math.max(0, stage - 1), ...run.stages.map((_, at) => at).reverse()])];
  if (text.startsWith("%")) {
    const names = text.split(",").map((one) => one.trim().replace(/^%/, ""));
    const known = new Set<string>();
    for (const at of stages) {
      const ids = new Map(Array.from(run.lines(at), (row) => [run.name(row) || String(run.id[row]), run.id[row]!]));
      if (names.every((name) => ids.has(name))) return { kind: "node", stage: at, ids: names.map((name) => ids.get(name)!) };
      for (const name of ids.keys()) known.add(name);
    }
    throw missing("node", `%${names.find((name) => !known.has(name)) ?? names[0]!}`, [...known].map((name) => `%${name}`));
  }
  const line = /^(.+), line (\d{1,7})$/.exec(text);
  if (line) {
    const origin = run.origins.findIndex((one) => one.file === line[1] && one.line === Number(line[2]));
    if (origin < 0) throw missing("line", text, run.origins.map((one) => `${one.file}, line ${one.line}`));
    return { kind: "line", origin };
  }
  const space = text.indexOf(" "), kind = space < 0 ? text : text.slice(0, space), rest = space < 0 ? "" : text.slice(space + 1);
  const called = (name: string): number => {
    const at = kernels.findIndex((one) => one.name === name);
    if (at < 0) throw missing("kernel", name, kernels.map((one) => one.name));
    return at;
  };
  const numbered = (count: number): number => {
    if (!/^\d{1,7}$/.test(rest) || Number(rest) >= count) throw new Error(`There is no ${kind} “${rest}”: there are ${count}, counted from 0.`);
    return Number(rest);
  };
  switch (kind) {
    case "kernel":
      return { kind, kernel: called(rest) };
    case "source": {
      const [, name, dialect, number] = /^(.+) (c|cuda|metal|webgpu|stablehlo) (\d{1,6})$/.exec(rest) ?? [];
      if (name === undefined) break;
      return { kind, kernel: called(name), dialect: dialect!, line: Number(number) };
    }
    case "rule": {
      const known = new Set([...Object.keys(rules), ...run.stages.flatMap(({ counts }) => Object.keys(counts))]);
      if (!known.has(rest)) throw missing("rule", rest, [...known]);
      return { kind, rule: rest };
    }
    case "scope": {
      const scopes = new Set<string>();
      for (const at of stages)
        for (const row of run.lines(at)) {
          const scope = run.scope(row);
          if (scope === rest || scope.startsWith(`${rest}.`)) return { kind, stage: at, path: rest };
          scopes.add(scope);
        }
      throw missing("scope", rest, [...scopes]);
    }
    case "launch":
      return { kind, launch: numbered(launches.length) };
    case "buffer":
      return { kind, buffer: numbered(buffers.length) };
    case "firing":
      return { kind, stage, firing: numbered(run.stages[stage]!.firings) };
  }
  throw new Error(`“${text}” selects nothing: write “%y”, “scope head”, “kernel softmax” or “cell 1, line 5”.`);
}

function missing(what: string, name: string, known: readonly string[]): Error {
  const near = nearest(name, known);
  return new Error(`There is no ${what} “${name}” here${near ? `: did you mean “${near}”?` : "."}`);
}

/** The name that takes fewest changes of a letter, if it takes few. */
export function nearest(name: string, known: readonly string[]): string | null {
  let best: string | null = null, least = Math.max(2, Math.ceil(name.length / 3));
  for (const one of new Set(known)) {
    if (!one || Math.abs(one.length - name.length) > least) continue;
    let row = Array.from({ length: one.length + 1 }, (_, at) => at);
    for (let i = 1; i <= name.length; i++) {
      const next = [i];
      for (let j = 1; j <= one.length; j++) next.push(Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + Number(name[i - 1] !== one[j - 1])));
      row = next;
    }
    if (row.at(-1)! < least || (best === null && row.at(-1)! === least)) [best, least] = [one, row.at(-1)!];
  }
  return best;
}

/** The text of where a store is. */
export function writtenAt({ run, place, selected }: Pick<Store, "run" | "place" | "selected">): string {
  const { stage, firing } = place, { name } = run.stages[stage]!;
  const pass = stage === 0 ? "written" : /[/@:]/.test(name) ? String(stage) : stageOf(run, name) === stage ? name : `${name}@${stage}`;
  const text = `${place.run ? `${place.run}:` : ""}${pass}${firing >= 0 ? `/${firing}` : ""}`;
  const said = selected ? selectionText(run, selected, stage) : "";
  return said ? `${text}/${said}` : text;
}

function selectionText(run: Run, selected: Selected, stage: number): string {
  const { kernels } = run.facts;
  switch (selected.kind) {
    case "node":
      return selected.ids.map((id) => `%${(run.rowsOf(id).length && run.name(run.rowsOf(id)[0]!)) || id}`).join(",");
    case "scope":
      return `scope ${selected.path}`;
    case "line": {
      const origin = run.origins[selected.origin];
      return origin ? `${origin.file}, line ${origin.line}` : "";
    }
    case "firing":
      return selected.stage === stage ? `firing ${selected.firing}` : "";
    case "rule":
      return `rule ${selected.rule}`;
    case "kernel":
      return `kernel ${kernels[selected.kernel]!.name}`;
    case "source":
      return `source ${kernels[selected.kernel]!.name} ${selected.dialect} ${selected.line}`;
    case "launch":
      return `launch ${selected.launch}`;
    case "buffer":
      return `buffer ${selected.buffer}`;
  }
}

const KEY = "#at=";

/** The text in a fragment: as it stands, or with its letters decoded; null where there is none. */
export function inFragment(hash: string): string | null {
  if (!hash.startsWith(KEY)) return null;
  try {
    return decodeURIComponent(hash.slice(KEY.length));
  } catch {
    return hash.slice(KEY.length);
  }
}

/** A fragment that browsers, mails and chats leave as it is. */
export function fragment(text: string): string {
  return KEY + encodeURIComponent(text).replace(/%(2F|3A|40|2C)/g, decodeURIComponent);
}
