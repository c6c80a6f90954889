// What is asked of a search: words and regular expressions, each of any field or of one.

import type { Run } from "./model";

/** What can be asked for by name: `op:mul dtype:f16 line:"cell 3"`. */
export const FIELDS = ["op", "label", "name", "shape", "dtype", "type", "scope", "line", "rule", "kind", "text"] as const;
type Field = (typeof FIELDS)[number];
/** Where words without a field are looked for. */
const ANY: readonly Field[] = ["name", "op", "label", "type", "scope", "line"];

export interface Query {
  /** Why it cannot be read, or "". */
  readonly error: string;
  matches(row: number): boolean;
  /** Whether a row is just what was asked for, which comes first. */
  isExact(row: number): boolean;
}

interface Term {
  readonly fields: readonly Field[];
  readonly isWithout: boolean;
  readonly word: string;
  test(text: string): boolean;
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
    let test = (text: string): boolean => (isName ? text.toLowerCase().startsWith(word) : text.toLowerCase().includes(word));
    if (isExpression) {
      if (!value.endsWith("/") || value.length < 3) return wrong("A regular expression stands between two slashes: /mul|add/.");
      if (isEndless(value)) return wrong(`${value} repeats what repeats itself or has a choice, which can take for ever.`);
      try {
        const found = new RegExp(value.slice(1, -1), "i");
        test = (text) => found.test(text);
      } catch (error) {
        const why = (error instanceof Error ? error.message : "").replace(/^Invalid regular expression: /, "").replace(value.slice(0, -1), "").replace(/^.*: /, "");
        return wrong(`${value} is no regular expression${why ? `: ${why.toLowerCase()}` : ""}.`);
      }
    }
    const fields = field || isName ? [(field?.toLowerCase() ?? "name") as Field] : ANY;
    terms.push({ fields, isWithout: minus === "-", word: isExpression ? "" : word, test: remembered(test) });
  }
  return {
    error: "",
    matches: (row) => terms.every(({ fields, isWithout, test }) => isWithout !== fields.some((field) => test(textOf(run, row, field)))),
    isExact: (row) => terms.some(({ word }) => word !== "" && (isWord(run.name(row), word) || isWord(run.op(row), word))),
  };
}

/** Milliseconds that a search may keep a page from all else. */
const PATIENCE = 1000;

/** Whether a text is a word but for its case; most differ in length. */
function isWord(text: string, word: string): boolean {
  return text.length === word.length && text.toLowerCase() === word;
}

/** The rows that match, those first that are just what was asked for; `stopped` hears how far it came in its time. */
export function search(rows: ArrayLike<number>, asked: Query, stopped?: (at: number) => void): number[] {
  const exact: number[] = [], found: number[] = [], end = performance.now() + PATIENCE;
  for (let at = 0; at < rows.length; at++) {
    const row = rows[at]!;
    if (at && performance.now() > end) {
      stopped?.(at);
      break;
    }
    if (asked.matches(row)) (asked.isExact(row) ? exact : found).push(row);
  }
  return [...exact, ...found];
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
function remembered(test: Term["test"]): Term["test"] {
  const known = new Map<string, boolean>();
  return (text) => {
    let found = known.get(text);
    if (found === undefined) known.set(text, (found = test(text)));
    return found;
  };
}

function wrong(error: string): Query {
  return { error, matches: () => false, isExact: () => false };
}
