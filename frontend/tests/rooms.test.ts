// The rooms of the front end: each may use those before it, and no circle of imports runs.

import { readdirSync, readFileSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import { expect, test } from "vitest";

const SRC = `${import.meta.dirname}/../src`;
/** What is known; elements and lists; the picture; what stands beside it; what holds all of them. */
const ROOMS = ["data", "parts", "graph", "panes", "shell"];
const IMPORT = /^(?:import|export) (type )?(?:[^"';]*? from )?"(\.[^"]+)";/gm;

interface Arrow {
  readonly from: string;
  readonly to: string;
  readonly runs: boolean;
}

const files = readdirSync(SRC, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".ts"));
const arrows = files.flatMap((name): Arrow[] => {
  const text = readFileSync(join(SRC, name), "utf8");
  return [...text.matchAll(IMPORT)].map(([, type, at]) => {
    const to = relative(SRC, join(SRC, dirname(name), `${at}.ts`));
    return { from: name, to, runs: !type };
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

test("no circle of imports runs", () => {
  const left = new Map(files.map((name) => [name, new Set(arrows.filter(({ from, runs }) => runs && from === name).map(({ to }) => to))]));
  for (let before = -1; before !== left.size; ) {
    before = left.size;
    for (const [name, needs] of left) if (![...needs].some((need) => left.has(need))) left.delete(name);
  }
  expect([...left.keys()]).toEqual([]);
});
