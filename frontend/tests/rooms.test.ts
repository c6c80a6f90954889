// The rooms of the front end: each may use those before it, and imports run in no circle, be it by types alone.

import { readdirSync, readFileSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import { expect, test } from "vitest";

const SRC = `${import.meta.dirname}/../src`;
/** What is known; elements and lists; the picture; what stands beside it; what holds all of them. */
const ROOMS = ["data", "parts", "graph", "panes", "shell"];
const IMPORT = /^(?:import|export) (?:[^"';]*? from )?"(\.[^"]+)";/gm;

interface Arrow {
  readonly from: string;
  readonly to: string;
}

const files = readdirSync(SRC, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".ts"));
const arrows = files.flatMap((name): Arrow[] => {
  const text = readFileSync(join(SRC, name), "utf8");
  return [...text.matchAll(IMPORT)].map(([, at]) => {
    const to = relative(SRC, join(SRC, dirname(name), `${at}.ts`));
    return { from: name, to };
  });
});

test("every file is in a room, and has a name of its own", () => {
  expect([...new Set(files.map((name) => dirname(name)))].sort()).toEqual([...ROOMS].sort());
  expect(new Set(files.map((name) => basename(name))).size).toBe(files.length);
});

test("imports lead to rooms before one's own", () => {
  expect(arrows.length).toBeGreaterThan(300);
  expect(arrows.filter(({ to }) => !files.includes(to))).toEqual([]);
  const room = (name: string): number => ROOMS.indexOf(dirname(name));
  expect(arrows.filter(({ from, to }) => room(to) > room(from))).toEqual([]);
});

/** The files that are in circles, and those that lead to them, once all others are gone. */
function circling(names: readonly string[], imports: readonly Arrow[]): string[] {
  const left = new Map(names.map((name) => [name, new Set(imports.filter(({ from }) => from === name).map(({ to }) => to))]));
  for (let before = -1; before !== left.size; ) {
    before = left.size;
    for (const [name, needs] of left) if (![...needs].some((need) => left.has(need))) left.delete(name);
  }
  return [...left.keys()];
}

test("imports run in no circle, types included", () => {
  expect(circling(files, arrows)).toEqual([]);
  // A type that is imported back closes one.
  const back = arrows.find(({ from }) => from === "data/bundle.ts")!;
  expect(circling(files, [...arrows, { from: back.to, to: back.from }])).toContain(back.to);
});

/** Classes that one file makes, and another one places. */
const PLACED = ["ll-root", "ll-search", "ll-select", "ll-side"];

test("a class has its look from one file, so that no pane changes another one's", () => {
  const looks = new Map<string, string[]>();
  for (const name of files) {
    const rules = [...readFileSync(join(SRC, name), "utf8").matchAll(/css`([^`]*)`/g)].map(([, text]) => text!.replaceAll(/\/\*.*?\*\/|:is\([^)]*\)/gs, "")).join("\n");
    // Alone in a selector: what stands below something else is that one's.
    for (const one of new Set([...rules.matchAll(/(?:^|[{},])\s*\.(ll-[\w-]+)\s*(?=[,{])/gm)].map(([, found]) => found!))) looks.set(one, [...(looks.get(one) ?? []), name]);
  }
  expect([...looks].filter(([one, names]) => names.length > 1 && !PLACED.includes(one))).toEqual([]);
});
