// What is asked of a search: words and regular expressions, each of any field or of one.

import type { Run } from "./model";

/** What can be asked for by name: `op:mul dtype:f16 line:"cell 3"`. */
export const FIELDS = ["op", "label", "name", "shape", "dtype", "type", "scope", "line", "rule", "kind", "text"] as const;
export type Field = (typeof FIELDS)[number];
/** Where words without a field are looked for. */
const ANY: readonly Field[] = ["name", "op", "label", "type", "scope", "line"];

/** From where to where in a text. */
export type Span = readonly [from: number, to: number];

/** What of a row matched. */
export interface Match {
  readonly field: Field;
  readonly text: string;
  readonly span: Span;
}

export interface Query {
  /** Why it cannot be read, or "". */
  readonly error: string;
  /** Whether no field of nodes is asked for, so that it is about other things as well. */
  readonly isOpen: boolean;
  matches(row: number): boolean;
  /** Whether a row is just what was asked for, which comes first. */
  isExact(row: number): boolean;
  /** What of a row that matches is what was asked for. */
  matchesIn(row: number): Match[];
  /** Where a text of something else matches; null where it does not. */
  spansIn(text: string): Span[] | null;
  isExactly(text: string): boolean;
}

interface Term {
  readonly fields: readonly Field[];
  readonly isWithout: boolean;
  readonly word: string;
  find(text: string): Span | null;
}

// A minus for "without", a field, and a quoted text, a regular expression or a word.
const TERM = new RegExp(String.raw`(-?)(?:(${FIELDS.join("|")}):)?("[^"]*"?|/(?:\\.|[^/\\])*/?(?=\s|$)|\S+)`, "gi");

/** Read what somebody typed; what is wrong with it is a sentence. */
export function query(run: Run, typed: string): Query {
  const terms: Term[] = [];
  for (const [, minus, field, value = ""] of typed.matchAll(TERM)) {
    const isExpression = value.length > 1 && value.startsWith("/");
    const bare = value.replaceAll('"', "").toLowerCase();
    // As the text form has it: %12 is a name, and is looked for from its beginning.
    const isName = !field && bare.startsWith("%");
    const word = isName ? bare.slice(1) : bare;
    if (!word) continue;
    let find = (text: string): Span | null => {
      const at = text.toLowerCase().indexOf(word);
      return at < 0 || (isName && at) ? null : [at, at + word.length];
    };
    if (isExpression) {
      if (!value.endsWith("/") || value.length < 3) return wrong("A regular expression stands between two slashes: /mul|add/.");
      if (isEndless(value)) return wrong(`${value} repeats what repeats itself or has a choice, which can take for ever.`);
      try {
        const found = new RegExp(value.slice(1, -1), "i");
        find = (text) => {
          const match = found.exec(text);
          return match && [match.index, match.index + match[0].length];
        };
      } catch (error) {
        const why = (error instanceof Error ? error.message : "").replace(/^Invalid regular expression: /, "").replace(value.slice(0, -1), "").replace(/^.*: /, "");
        return wrong(`${value} is not a regular expression${why ? `: ${why.toLowerCase()}` : ""}.`);
      }
    }
    const fields = field || isName ? [(field?.toLowerCase() ?? "name") as Field] : ANY;
    terms.push({ fields, isWithout: minus === "-", word: isExpression ? "" : word, find: remembered(find) });
  }
  const wanted = terms.filter(({ isWithout }) => !isWithout);
  return {
    error: "",
    isOpen: wanted.length > 0 && terms.every(({ fields }) => fields === ANY),
    matches: (row) => terms.every(({ fields, isWithout, find }) => isWithout !== fields.some((field) => find(textOf(run, row, field)))),
    isExact: (row) => terms.some(({ word }) => word !== "" && (isWord(run.name(row), word) || isWord(run.op(row), word))),
    matchesIn: (row) =>
      wanted.flatMap(({ fields, find }) => {
        for (const field of fields) {
          const text = textOf(run, row, field), span = find(text);
          if (span) return [{ field, text, span }];
        }
        return [];
      }),
    spansIn: (text) => {
      const spans: Span[] = [];
      for (const { isWithout, find } of terms) {
        const span = find(text);
        if (isWithout === (span !== null)) return null;
        if (span) spans.push(span);
      }
      return spans;
    },
    isExactly: (text) => wanted.some(({ word }) => word !== "" && isWord(text, word)),
  };
}

/** Milliseconds that a search may keep a page from all else. */
const PATIENCE = 1000;

/** Whether a text is a word but for its case; most differ in length. */
function isWord(text: string, word: string): boolean {
  return text.length === word.length && text.toLowerCase() === word;
}

/** The rows that match, those that are just what was asked for apart; `stopped` hears how far it came in its time. */
export function search(rows: ArrayLike<number>, asked: Query, stopped?: (at: number) => void): { exact: number[]; others: number[] } {
  const exact: number[] = [], found: number[] = [], end = performance.now() + PATIENCE;
  for (let at = 0; at < rows.length; at++) {
    const row = rows[at]!;
    if (at && performance.now() > end) {
      stopped?.(at);
      break;
    }
    if (asked.matches(row)) (asked.isExact(row) ? exact : found).push(row);
  }
  return { exact, others: found };
}

/** Whether something is repeated that repeats itself or has a choice: nobody can stop such a search of a long name. */
function isEndless(expression: string): boolean {
  const groups = [false];
  for (const [sign] of expression.replace(/\\.|\[(?:\\.|[^\]\\])*\]/g, "x").matchAll(/\(|\)[*+{]?|[*+{|]/g)) {
    if (sign === "(") groups.push(false);
    else if (sign.startsWith(")")) {
      const inner = groups.pop(), isRepeated = sign.length > 1;
      if (inner && isRepeated) return true;
      if (inner || isRepeated) groups[groups.length - 1] = true;
    } else groups[groups.length - 1] = true;
  }
  return false;
}

function textOf(run: Run, row: number, field: Field): string {
  switch (field) {
    case "line":
      return lineOf(run, run.origin[row]!);
    case "kind":
      return run.kind(row);
    default:
      return run[field](row);
  }
}

const LINES = new WeakMap<Run, string[]>();

/** A line of the user's in words: "cell 3, line 7: y = x.softmax(-1)". */
export function lineOf(run: Run, origin: number): string {
  let lines = LINES.get(run);
  if (!lines) LINES.set(run, (lines = run.origins.map(({ file, line, code }) => `${file}, line ${line}${code ? `: ${code.trim()}` : ""}`)));
  return lines[origin] ?? "";
}

/** Many rows have the same texts. */
function remembered(find: Term["find"]): Term["find"] {
  const known = new Map<string, Span | null>();
  return (text) => {
    let found = known.get(text);
    if (found === undefined) known.set(text, (found = find(text)));
    return found;
  };
}

function wrong(error: string): Query {
  return { error, isOpen: false, matches: () => false, isExact: () => false, matchesIn: () => [], spansIn: () => null, isExactly: () => false };
}
