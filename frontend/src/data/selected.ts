// What can be selected: nodes, scopes, lines, firings, rules, kernels, launches, buffers.

import type { Run } from "./model";

/** Something that somebody selected; everything else that lights up follows from it. */
export type Selected =
  | { readonly kind: "node"; readonly stage: number; readonly ids: readonly number[] }
  | { readonly kind: "scope"; readonly stage: number; readonly path: string }
  | { readonly kind: "line"; readonly origin: number }
  | { readonly kind: "firing"; readonly stage: number; readonly firing: number }
  | { readonly kind: "rule"; readonly rule: string }
  | { readonly kind: "kernel"; readonly kernel: number }
  | { readonly kind: "launch"; readonly launch: number }
  | { readonly kind: "source"; readonly kernel: number; readonly dialect: string; readonly line: number }
  | { readonly kind: "buffer"; readonly buffer: number };

/** What each kind of selection has; the same order as Python's. */
const PARTS: Readonly<Record<string, string>> = {
  node: "stage ids", scope: "stage path", line: "origin", firing: "stage firing", rule: "rule", kernel: "kernel",
  launch: "launch", source: "kernel dialect line", buffer: "buffer",
};

/** What is selected according to somebody else, if the run has it: ids that no graph has are left out. */
export function sound(given: unknown, run: Run): Selected | null {
  const got = (given ?? {}) as Readonly<Record<string, unknown>>;
  const kind = String(got["kind"]);
  if (!Object.hasOwn(PARTS, kind)) return null;
  const { kernels, launches, buffers } = run.facts;
  const counts: Readonly<Record<string, number>> = {
    stage: run.stages.length, firing: run.stages[Number(got["stage"])]?.firings ?? 0, origin: run.origins.length,
    kernel: kernels.length, launch: launches.length, buffer: buffers.length, line: Infinity,
  };
  const found: Record<string, unknown> = { kind };
  for (const part of PARTS[kind]!.split(" ")) {
    const value = got[part];
    const isSound =
      part === "ids"
        ? Array.isArray(value) && value.some((id) => run.rowsOf(id).length)
        : part in counts
          ? Number.isInteger(value) && Number(value) >= 0 && Number(value) < counts[part]!
          : typeof value === "string";
    if (!isSound) return null;
    found[part] = Array.isArray(value) ? value.filter((id) => run.rowsOf(id).length) : value;
  }
  return found as unknown as Selected;
}
