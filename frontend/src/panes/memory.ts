// Where values live: each buffer from its first launch to its last, at its place in the arena; the peak.

import { div, fill, h, s, span } from "../parts/dom";
import { listing } from "../parts/listing";
import { named } from "../data/named";
import type { Pane, Store } from "../data/store";
import { textWidth } from "../data/metrics";
import { css, typeScale } from "../parts/styles";
import { bytes, count } from "../data/units";

css`
.ll-arena { width: 100%; height: 38%; min-height: 100px; flex: none; border: solid var(--ll-line); border-width: 1px 0; background: var(--ll-open); }
.ll-arena rect, .ll-life rect { fill: var(--ll-launch-fill); stroke: var(--ll-launch-line); vector-effect: non-scaling-stroke; cursor: pointer; }
.ll-arena text { font-size: 11px; fill: var(--ll-text); text-anchor: middle; dominant-baseline: central; pointer-events: none; }
.ll-meter { white-space: nowrap; }
.ll-arena .ll-lit, .ll-lit .ll-life rect { fill: var(--ll-chosen); stroke: var(--ll-accent); stroke-width: 2.5; }
.ll-life { flex: 1 1 0; min-width: 50px; height: 14px; }
.ll-buffer { flex: 0 1 24ch; overflow: hidden; text-overflow: ellipsis; margin-right: 8px; } .ll-size { flex: 0 0 9ch; }
`;

// What the plan has decided first.
const KINDS = ["arena", "output", "alias", "constant", "input"];

export function memory(store: Store, host: HTMLElement): Pane {
  let order: number[] = [];
  const head = h("div");
  const of = (at: number) => store.run.facts.buffers[at]!;
  const last = (): number => Math.max(store.run.facts.launches.length, ...store.run.facts.buffers.map((one) => one.last + 1));
  const isLit = (buffer: number): boolean => !!store.selected && store.related.buffers.has(buffer);
  /** What has room for its name shows it. */
  const name = (): void => {
    const { width, height } = arena.getBoundingClientRect(), type = typeScale(host);
    for (const one of arena.querySelectorAll("text")) {
      const fits = textWidth(one.textContent, 11 * type) + 8 < (Number(one.dataset["width"]) * width) / 100 && 15 * type < (Number(one.dataset["height"]) * height) / 100;
      one.style.display = fits ? "" : "none";
    }
  };
  const list = listing(store, host, {
    level: "run",
    label: "buffers",
    height: 22,
    row: (at) => {
      const { name, nodes, kind, first, last: end, bytes: size } = of(order[at]!);
      return [
        h("span", { class: "ll-buffer", title: named(store.run, nodes) }, name),
        span("ll-size", bytes(size)),
        span("ll-size ll-faint", kind),
        s("svg", { class: "ll-life", viewBox: `0 0 ${last()} 14`, preserveAspectRatio: "none", role: "img", "aria-label": `launches ${first} to ${end}` }, s("rect", { x: first, y: 2, width: end - first + 1, height: 10 })),
      ];
    },
    isLit: (at) => isLit(order[at]!),
    what: (at) => ({ kind: "buffer", buffer: order[at]! }),
    draw: () => {
      const { buffers, memory: peak } = store.run.facts;
      const placed = buffers.flatMap((one, at) => (one.kind === "arena" && one.offset !== null && one.bytes ? [{ ...one, offset: one.offset, bytes: one.bytes, at }] : []));
      const most = Math.max(1, ...placed.map((one) => one.offset + one.bytes));
      order = buffers.map((_, at) => at).sort((one, other) => KINDS.indexOf(of(one).kind) - KINDS.indexOf(of(other).kind) || of(one).first - of(other).first);
      const meter = (name: string, value: number) => span("ll-meter", `${name} `, h("strong", null, bytes(value)), " ", h("meter", { min: 0, max: Math.max(1, peak!.before), value }));
      fill(
        head,
        !buffers.length && div("ll-note", "There is no memory plan in this run: a device makes one."),
        peak && div("ll-facts", meter("peak with each value its own", peak.before), meter("as planned", peak.after)),
        placed.length > 0 && div("ll-note ll-faint", `the arena: ${bytes(most)} from top to bottom, ${count(last(), "launch", "launches")} from left to right`),
      );
      const wide = 100 / last(), high = 100 / most, percent = (value: number): string => `${Number(value.toFixed(3))}%`;
      fill(
        arena,
        placed.map((one) => {
          const [x, y, width, height] = [one.first * wide, one.offset * high, (one.last - one.first + 1) * wide, Math.max(0.4, one.bytes * high)];
          return [
            s("rect", { "data-buffer": one.at, x: percent(x), width: percent(width), y: percent(y), height: percent(height), onclick: () => list.watch.select({ kind: "buffer", buffer: one.at }) }, s("title", null, `${one.name}: ${bytes(one.bytes)} at ${bytes(one.offset)}, launches ${one.first} to ${one.last}`)),
            s("text", { x: percent(x + width / 2), y: percent(y + height / 2), "data-width": width, "data-height": height }, one.name),
          ];
        }),
      );
      name();
      arena.style.display = placed.length ? "" : "none";
      return [buffers.length];
    },
    light: () => {
      for (const one of arena.querySelectorAll("rect")) one.classList.toggle("ll-lit", isLit(Number(one.getAttribute("data-buffer"))));
    },
  });
  const arena = s("svg", { class: "ll-arena", role: "img", "aria-label": "the arena; the list below has the same buffers" });
  host.append(head, arena, list.rows.element);
  list.watch.begin();
  const observer = typeof ResizeObserver === "undefined" ? null : new ResizeObserver(name);
  observer?.observe(arena);
  return { dispose: () => (observer?.disconnect(), list.dispose()) };
}
