// Search: a field, and the nodes that it finds as a list; what is chosen is selected and shown.

import { button, fill, h } from "../parts/dom";
import type { GraphView } from "../graph/graph";
import { FIELDS, query, search } from "../data/query";
import { Rows } from "../parts/rows";
import type { Pane, Store } from "../data/store";
import { css } from "../parts/styles";
import { count } from "../data/units";

css`
.ll-search { display: flex; flex-direction: column; flex: 0 1 270px; min-width: 200px; border-right: 1px solid var(--ll-line); min-height: 0; }
.ll-search .ll-bar { flex-wrap: nowrap; font-size: 12px; }
.ll-found { gap: 8px; }
.ll-found > :first-child { font-family: var(--ll-mono); font-size: 12px; }
.ll-find { width: 168px; }
`;

export interface Search extends Pane {
  /** The field, which stands in the bar. */
  readonly field: HTMLInputElement;
  /** Empty the field and close the list; returns whether there was anything. */
  clear(): boolean;
}

/** A search over the nodes of the present graph; results are drawn into a host, which is hidden without any. */
export function searching(store: Store, host: HTMLElement, graph: Pick<GraphView, "focus">): Search {
  let rows: number[] = [];
  let place = "";
  const field = h("input", {
    class: "ll-field ll-find",
    type: "search",
    placeholder: "Search (/)",
    "aria-label": "Search nodes",
    title: `Words, /regular expressions/, or fields: ${FIELDS.map((one) => `${one}:`).join(" ")}\nop:mul dtype:f16 scope:attn line:"cell 3" -name:bias`,
    spellcheck: "false",
    maxlength: 1000,
    oninput: () => find(),
    onkeydown: (event: KeyboardEvent) => key(event),
  });
  const summary = h("span", { class: "ll-grow", role: "status" });
  const all = button("Select all", "Select all that was found", () => {
    store.select({ kind: "node", stage: store.place.stage, ids: rows.map((row) => store.run.id[row]!) });
    store.say(`${count(rows.length, "node")} selected`);
  });
  const list = new Rows({
    label: "Nodes found",
    height: 38,
    draw: (at) => {
      const { run } = store;
      const row = rows[at]!;
      return h("div", { class: "ll-found" }, h("div", null, `%${run.name(row)} ${run.op(row)} `, h("span", { class: "ll-faint" }, run.type(row))), h("div", { class: "ll-faint" }, run.scope(row)));
    },
    look: (at) => (isSelected(rows[at]!) ? "ll-lit" : ""),
    act: (at) => choose(at),
    hover: (at) => store.hover(at === null ? null : { kind: "node", stage: store.place.stage, ids: [store.run.id[rows[at]!]!] }),
    follow: true,
  });
  fill(host, h("div", { class: "ll-bar" }, summary, all, button("×", "Close the search", () => clear())), list.element);
  host.classList.add("ll-search");
  host.hidden = true;

  const isSelected = (row: number): boolean => store.selected?.kind === "node" && store.selected.ids.includes(store.run.id[row]!);
  const choose = (at: number): void => {
    const row = rows[at];
    if (row === undefined) return;
    store.select({ kind: "node", stage: store.place.stage, ids: [store.run.id[row]!] });
    graph.focus(row);
    list.refresh();
  };
  const find = (): void => {
    const typed = field.value.trim();
    host.hidden = !typed;
    if (!typed) return;
    const { run } = store;
    const { stage, firing } = store.place;
    place = `${store.place.run} ${stage} ${firing}`;
    const asked = query(run, typed);
    const alive = run.alive(stage, firing);
    const lines = firing < 0 ? run.lines(stage) : [...new Set([...run.lines(Math.max(0, stage - 1)), ...run.lines(stage)])].filter((row) => alive.has(row));
    let tried = lines.length;
    rows = asked.error ? [] : search(lines, asked, (at) => (tried = at));
    const none = /\w:/.test(typed) ? `No node is so. Fields are ${FIELDS.join(", ")}.` : "No node is so.";
    const words = asked.error || (rows.length ? `${rows.length.toLocaleString("en")} of ${count(lines.length, "node")}` : none);
    summary.textContent = tried < lines.length ? `${words} It took too long: ${count(lines.length - tried, "node")} were not searched.` : words;
    all.hidden = rows.length < 2;
    list.current = 0;
    list.show(rows.length);
  };
  const key = (event: KeyboardEvent): void => {
    if (event.isComposing) return;
    if (event.key === "Enter") choose((list.current = (list.current + (field.dataset["chosen"] === field.value ? (event.shiftKey ? rows.length - 1 : 1) : 0)) % Math.max(1, rows.length)));
    else if (event.key === "ArrowDown" && rows.length) list.element.focus();
    else if (event.key !== "Escape" || !clear()) return;
    // Enter again goes on to the next.
    field.dataset["chosen"] = field.value;
    list.reveal(list.current);
    event.preventDefault();
    event.stopPropagation();
  };
  const clear = (): boolean => {
    const had = field.value !== "" || !host.hidden;
    const hadFocus = host.contains(document.activeElement);
    field.value = "";
    rows = [];
    host.hidden = true;
    if (hadFocus) field.focus();
    return had;
  };
  const stops = [
    store.on("place", () => {
      if (!host.hidden && place !== `${store.place.run} ${store.place.stage} ${store.place.firing}`) find();
    }),
    store.on("bundle", () => !host.hidden && find()),
    store.on("selection", () => !host.hidden && list.refresh()),
  ];
  return {
    field,
    clear,
    dispose: () => {
      for (const stop of stops) stop();
      list.dispose();
    },
  };
}
