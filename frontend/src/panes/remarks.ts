// What there is to say of a run as a whole: what it is a part of, why it ends where it does.

import { div, fill, h, link, type Child } from "../parts/dom";
import { lineOf } from "../data/query";
import type { Pane, Store } from "../data/store";
import { css } from "../parts/styles";

css`
.ll-remarks { flex: none; display: flex; flex-wrap: wrap; gap: 0 14px; padding: 3px 10px; border-bottom: 1px solid var(--ll-line); background: var(--ll-panel); max-height: 8em; overflow-y: auto; overflow-wrap: anywhere; }
.ll-remarks[hidden] { display: none; }
.ll-remarks .ll-link { font: 12px/1.5 var(--ll-mono); text-align: left; }
`;

/** Each remark, with a link that selects the line that it is about. */
export function remarksOf(store: Store): Child[] {
  const { run } = store;
  return run.facts.remarks.map(({ text, line }) =>
    h("div", null, text, line !== null && [": ", link(lineOf(run, line), () => store.select({ kind: "line", origin: line }))]));
}

export function remarks(store: Store, host: HTMLElement): Pane {
  const all = div("ll-remarks");
  const draw = (): void => {
    const said = remarksOf(store);
    all.hidden = !said.length;
    fill(all, said);
  };
  let run = store.run;
  const stops = [store.on("place", () => run !== store.run && ((run = store.run), draw())), store.on("bundle", draw)];
  host.append(all);
  draw();
  return { dispose: () => (stops.forEach((stop) => stop()), all.remove()) };
}
