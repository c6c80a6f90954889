// And if a value were cut otherwise? The kernel spreads the graph again, and says what would be sent; nothing is run.

import { asked } from "../parts/asking";
import { button, div, fill, h, span } from "../parts/dom";
import type { Live } from "../data/live";
import type { SentRow } from "../data/model";
import { totalOf } from "../data/spread";
import type { Store } from "../data/store";
import { css } from "../parts/styles";
import { bytes, signed, whole } from "../data/units";

css`
.ll-tryit { display: flex; flex-wrap: wrap; gap: 4px 22px; align-items: center; padding: 6px 10px; border-top: 1px solid var(--ll-line); font-size: 12px; } .ll-tryit > label, .ll-tryit > span { display: inline-flex; align-items: center; gap: 4px; }
.ll-tryit .ll-mono.ll-changed { box-shadow: 0 2px var(--ll-high); }
.ll-tried { padding: 2px 10px 6px; font-size: 12px; } .ll-tried ul { margin: 2px 0 0; padding-left: 18px; }
`;

/** So many values have a row; of more only those that are annotated. */
const MOST = 24;

/** A select for each axis of each value that can be annotated, and below what would be sent. */
export function tryIt(store: Store, host: HTMLElement, live: Live): void {
  const { workers } = store.run.facts;
  const { placed, axes, sent } = workers ?? { placed: [], axes: [], sent: [] };
  if (!placed.length) return void fill(host);
  if (!live.hasKernel) return void fill(host, div("ll-tryit ll-faint", `And if a value were cut otherwise? ${live.sorry}`));
  const shown = placed.length > MOST ? placed.filter(([, , , , isAnnotated]) => isAnnotated) : placed;
  const changed = new Map<string, string[]>();
  const note = h("div", { role: "status", class: "ll-answer" }), answer = h("div");
  let turn = 0;
  const ask = async (): Promise<void> => {
    const mine = ++turn;
    fill(answer);
    if (!changed.size) return void fill(note);
    const reply = await asked(live, note, "what_if", { run: store.place.run, changed: Object.fromEntries(changed) });
    if (mine !== turn) return;
    if (!reply) return note.scrollIntoView?.({ block: "nearest" });
    const rows = reply["sent"] as readonly SentRow[], now = totalOf(rows), before = totalOf(sent);
    const words = `${bytes(before)} → ${bytes(now)} from each worker in a run`;
    fill(
      answer,
      div(
        "ll-tried",
        h("strong", { title: `${whole(before)} → ${whole(now)} bytes` }, words), " ", h("b", { class: now < before ? "ll-fell" : now > before ? "ll-grew" : "ll-faint" }, `${signed(now - before)} B`),
        h("ul", null, rows.map(([, op, axis, of, size, why]) => h("li", null, `${op} of ${of} over ${axis}, ${bytes(size)}: `, span("ll-faint", why)))),
      ),
    );
    answer.scrollIntoView?.({ block: "nearest" });
    store.say(words);
  };
  const value = ([, name, shape, words]: (typeof placed)[number]): HTMLElement => {
    const title = span("ll-mono", `${name}: ${shape}`);
    const all = words.map((word, at) =>
      h("select", { class: "ll-select", "aria-label": `axis ${at} of ${name}`, onchange: () => {
        const now = all.map((one) => one.value);
        if (now.join() === words.join()) changed.delete(name);
        else changed.set(name, now);
        title.classList.toggle("ll-changed", changed.has(name));
        void ask();
      } }, ["-", ...axes.map(([axis]) => axis)].map((axis) => h("option", { value: axis, selected: axis === word }, axis === "-" ? "whole" : axis))),
    );
    return span("", title, all);
  };
  fill(
    host,
    div("ll-tryit", h("strong", null, "And if it were cut otherwise?"), shown.map(value), button("As it was", "Take the changes back", () => tryIt(store, host, live)), placed.length > shown.length && span("ll-faint", `${placed.length - shown.length} more inputs: annotate them in Python`)),
    note, answer,
  );
}
