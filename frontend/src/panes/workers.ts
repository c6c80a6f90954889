// The workers of a mesh, or the stages of a pipeline: when each did what, what they send and why, and what another annotation would do.

import { div, fill, h, span } from "../parts/dom";
import { tryIt } from "./tryit";
import { listing, type Listing } from "../parts/listing";
import type { Live } from "../data/live";
import type { SentRow } from "../data/model";
import type { Pane, Store } from "../data/store";
import { css } from "../parts/styles";
import { totalOf } from "../data/spread";
import { bytes, count, whole } from "../data/units";
import { lanesKey, nameTurns, toldOf, workerLanes } from "./workerlanes";

css`
.ll-workers-head { flex: none; display: flex; flex-wrap: wrap; gap: 2px 14px; align-items: baseline; padding: 5px 10px; font-size: 12px; }
.ll-sendings { min-height: 44px; }
.ll-sent-row { display: grid; grid-template-columns: minmax(18ch, 34ch) minmax(50px, 110px) 9ch minmax(0, 1fr); gap: 0 10px; align-items: center; width: 100%; font-size: 12px; }
.ll-sent-row > span { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; } .ll-sent-row > .ll-sent-size { text-align: right; font-variant-numeric: tabular-nums; }
.ll-sent-row > i { height: 9px; border-radius: 2px; background: linear-gradient(var(--ll-sent-line) 0 0) 0 0 / var(--ll-share) 100% no-repeat, var(--ll-hover); }
`;

/** The mesh in words: data 2 × model 2, or 3 stages. */
export function meshWords(axes: readonly (readonly [string, number])[]): string {
  if (axes.length === 1 && axes[0]![0] === "stage") return `a pipeline of ${count(axes[0]![1], "stage")}`;
  return `${count(axes.reduce((all, [, size]) => all * size, 1), "worker")}: ${axes.map(([name, size]) => `${name} ${size}`).join(" × ")}`;
}

export function workers(store: Store, host: HTMLElement, live: Live): Pane {
  const head = h("div"), lanes = h("div"), trying = h("div");
  let order: readonly SentRow[] = [], most = 1;
  const last = (): number => store.run.stages.length - 1;
  const isPiped = (): boolean => store.run.facts.workers?.axes[0]?.[0] === "stage";
  /** All that is sent of one kind over one axis. */
  const meet = (op: string, axis: string): void => {
    const ids = order.filter((row) => row[1] === op && row[2] === axis).map(([node]) => node);
    if (ids.length) list.watch.select({ kind: "node", stage: last(), ids });
  };
  const isLit = (node: number): boolean => store.selected !== null && (store.related.nodes[last()]?.has(node) ?? false);
  const list: Listing = listing(store, host, {
    level: "run",
    label: "what is sent in each run",
    height: 22,
    class: "ll-sendings",
    row: (at) => {
      const [, op, axis, of, size, why] = order[at]!;
      const what = isPiped() ? `${of} to stage ${axis.split(" → ")[1]}` : `${op} of ${of} over ${axis}`;
      return div("ll-sent-row", h("span", { title: what }, what), h("i", { style: `--ll-share:${(100 * (size ?? 0)) / most}%` }), span("ll-sent-size", size === null ? "?" : bytes(size)), h("span", { class: "ll-faint", title: why }, why));
    },
    what: (at) => ({ kind: "node", stage: last(), ids: [order[at]![0]] }),
    isLit: (at) => isLit(order[at]![0]),
    draw: () => {
      const { workers: facts } = store.run.facts;
      order = facts?.sent ?? [];
      most = Math.max(1, ...order.map((row) => row[4] ?? 0));
      fill(
        head,
        facts
          ? div(
              "ll-workers-head",
              h("strong", null, meshWords(facts.axes)),
              span("", order.length ? [isPiped() ? `${count(order.length, "value")} sent to another stage, ` : `${count(order.length, "collective")}; each worker sends `, h("strong", { title: `${whole(totalOf(order))} bytes` }, bytes(totalOf(order))), " in a run"] : "nothing is sent"),
              span("ll-faint", facts.lanes ? `last run: ${toldOf(facts.lanes)}` : "no run to show yet: cx.execute(), and then cx.workbench()"),
            )
          : div("ll-note", "This run has one worker. In Python: cx.compile(…, ll.Sharded(ll.sharding(mesh, {…}), …))."),
      );
      fill(lanes, facts?.lanes && facts.lanes.work.length > 0 && [workerLanes(facts.lanes, meet), lanesKey(facts.lanes)]);
      nameTurns(host);
      tryIt(store, trying, live);
      return [order.length];
    },
    light: () => {
      for (const one of lanes.querySelectorAll(".ll-meets")) one.classList.toggle("ll-lit", order.some(([node, op, axis]) => `${op} ${axis}` === one.getAttribute("data-sent") && isLit(node)));
    },
  });
  host.append(head, lanes, list.rows.element, trying);
  list.watch.begin();
  const observer = typeof ResizeObserver === "undefined" ? null : new ResizeObserver(() => nameTurns(host));
  observer?.observe(host);
  return { dispose: () => (observer?.disconnect(), list.dispose()) };
}
