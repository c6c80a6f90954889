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

test("a class is laid out by one file alone", () => {
  const homes = new Map<string, Set<string>>();
  for (const name of files)
    for (const [, sheet] of readFileSync(join(SRC, name), "utf8").matchAll(/css`([^`]*)`/g))
      for (const [, selectors, body] of sheet!.matchAll(/([^{}]+)\{([^{}]*)\}/g))
        if (/\bdisplay:/.test(body!))
          for (const one of selectors!.split(",").map((each) => each.trim()).filter((each) => /^\.ll-[\w-]+$/.test(each))) homes.set(one, (homes.get(one) ?? new Set()).add(name));
  expect(homes.size).toBeGreaterThan(40);
  expect([...homes].filter(([, names]) => names.size > 1)).toEqual([]);
});
