// When a page is closed its timers end with it. jsdom's pages use Node's timers, which do not.

import { afterAll } from "vitest";

const begin = globalThis.setTimeout;
const begun = new Set<ReturnType<typeof setTimeout>>();
globalThis.setTimeout = Object.assign((...given: Parameters<typeof begin>) => {
  const timer = begin(...given);
  begun.add(timer);
  return timer;
}, begin) as typeof begin;

afterAll(() => begun.forEach((timer) => clearTimeout(timer)));
