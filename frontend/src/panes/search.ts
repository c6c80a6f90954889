// Search: a field, and all that it finds as a list; what is chosen is gone to.

import { button, fill, h, set, span, type Child } from "../parts/dom";
import { find, type Found, type Hit, type HitKind } from "../data/finding";
import { FIELDS, type Match, type Span } from "../data/query";
import { Rows } from "../parts/rows";
import type { Overlay, Pane, Selected, Store } from "../data/store";
import { css } from "../parts/styles";
import { count } from "../data/units";

css`
.ll-search { display: flex; flex-direction: column; flex: 0 1 300px; min-width: 200px; border-right: 1px solid var(--ll-line); min-height: 0; }
.ll-search .ll-bar { flex-wrap: nowrap; font-size: 12px; }
.ll-found { display: grid; grid-template-columns: minmax(0, 1fr) max-content; column-gap: 8px; width: 100%; line-height: 18px; }
.ll-found > :first-child { font-family: var(--ll-mono); font-size: 12px; grid-row: 1; }
.ll-found > .ll-more { grid-column: 1 / -1; }
.ll-found > * { overflow: hidden; text-overflow: ellipsis; }
.ll-found mark, .ll-said mark { background: var(--ll-rewired-fill); color: inherit; font-weight: 700; text-decoration: underline; text-underline-offset: 2px; }
.ll-what { font-size: 11px; line-height: 15px; padding: 0 5px; margin: 2px 0 1px; border: 1px solid var(--ll-line); border-radius: 3px; color: var(--ll-faint); background: var(--ll-panel); }
.ll-find { width: 168px; }
`;

export interface Search extends Pane {
  /** The field, which stands in a bar. */
  readonly field: HTMLInputElement;
  /** Empty the field and close the list; returns whether there was anything. */
  clear(): boolean;
}

export interface SearchOptions {
  /** Bring a node, or a box by its path, into sight. */
  bring(what: number | string): void;
  /** Whether the graph before a pass can be seen, too, and with it what the pass has removed. */
  hasBefore?(): boolean;
  /** Somebody went to a hit. */
  went?(kind: HitKind): void;
}

/** A text with what of it was looked for. */
export function marked(text: string, spans: readonly Span[]): Child[] {
  const found: Child[] = [];
  let end = 0;
  for (const [from, to] of [...spans].sort((one, other) => one[0] - other[0])) {
    if (to <= end) continue;
    found.push(text.slice(end, Math.max(end, from)), h("mark", null, text.slice(Math.max(end, from), to)));
    end = to;
  }
  found.push(text.slice(end));
  return found;
}

/** A search over all that a run has; hits are drawn into a host, which is hidden without any. */
export function searching(store: Store, host: HTMLElement, { bring, hasBefore, went }: SearchOptions): Search {
  let found: Found | null = null;
  let place = "";
  const field = h("input", {
    class: "ll-field ll-find",
    type: "search",
    placeholder: "Search (/)",
    "aria-label": "Search",
    title: `Nodes, scopes, ops, passes, rules, kernels and lines, by words or /regular expressions/; nodes by fields, too: ${FIELDS.map((one) => `${one}:`).join(" ")}\nop:mul dtype:f16 scope:attn line:"cell 3" -name:bias`,
    spellcheck: "false",
    maxlength: 1000,
    oninput: () => look(),
    onkeydown: (event: KeyboardEvent) => key(event),
  });
  const summary = h("span", { class: "ll-grow ll-said", role: "status" });
  const rows = (): readonly number[] => found?.rows ?? [];
  const all = button("Select all", "Select all nodes that were found", () => {
    // A selection is of one graph: of what was found that after the pass, unless all of it is removed.
    const { run, place: { stage } } = store, here = rows().filter((row) => !found!.removed.has(row)), chosen = here.length ? here : rows();
    store.select({ kind: "node", stage: here.length ? stage : stage - 1, ids: chosen.map((row) => run.id[row]!) });
    store.say(`${count(chosen.length, here.length ? "node" : "removed node")} selected`);
  });
  const only = button("Filter", "Fade all nodes but those that were found, or not", () => store.setOverlay(isFiltered() ? null : filter()));
  const list = new Rows({
    label: "What was found",
    height: 40,
    draw: (at) => {
      const one = found!.hits[at]!;
      return typeof one === "number" ? drawnNode(one) : drawnHit(one);
    },
    look: (at) => (isSelected(found!.hits[at]!) ? "ll-lit" : ""),
    act: (at) => choose(at),
    hover: (at) => {
      const one = at === null ? undefined : found?.hits[at];
      store.hover(one === undefined ? null : whatOf(one));
    },
    follow: true,
  });
  fill(host, h("div", { class: "ll-bar" }, summary, only, all, button("×", "Close the search", () => clear())), list.element);
  host.classList.add("ll-search");
  host.hidden = true;

  const tag = (kind: HitKind | "removed node"): HTMLElement => span("ll-what", kind);
  const drawnHit = ({ kind, text, spans, more, moreSpans }: Hit): Child =>
    h("div", { class: "ll-found", title: more ? `${text}\n${more}` : text }, h("div", null, marked(text, spans)), tag(kind), h("div", { class: "ll-faint ll-more" }, marked(more, moreSpans)));
  /** A node: its name, op and type, and below these whatever else of it matched, or its scope. */
  const drawnNode = (row: number): Child => {
    const { run } = store, matches = found!.asked.matchesIn(row);
    const within = (field: Match["field"], shift = 0): Span[] => matches.filter((one) => one.field === field).map(({ span: [from, to] }) => [from + shift, to + shift]);
    const type = run.type(row), inType = (field: "shape" | "dtype"): number => Math.max(0, type.indexOf(run[field](row)));
    const types = [...within("type"), ...within("dtype", inType("dtype")), ...within("shape", inType("shape"))];
    const elsewhere = matches.find(({ field }) => /^(scope|line|rule|kind|text)$/.test(field));
    const below = elsewhere ? [elsewhere.field !== "scope" && elsewhere.field !== "line" && `${elsewhere.field}: `, marked(elsewhere.text, within(elsewhere.field))] : run.scope(row);
    return h("div", { class: "ll-found", title: run.text(row) }, h("div", null, "%", marked(run.name(row), within("name")), " ", marked(run.op(row), within("op")), " ", h("span", { class: "ll-faint" }, marked(type, types))), tag(found!.removed.has(row) ? "removed node" : "node"), h("div", { class: "ll-faint ll-more" }, below));
  };
  const whatOf = (one: Hit | number): Selected | null => (typeof one === "number" ? { kind: "node", stage: store.run.homeOf(one, store.place.stage), ids: [store.run.id[one]!] } : one.what);
  const isSelected = (one: Hit | number): boolean => {
    const { selected, run, place: { stage } } = store;
    if (typeof one === "number") return selected?.kind === "node" && selected.ids.includes(run.id[one]!);
    return one.what ? JSON.stringify(one.what) === JSON.stringify(selected) : one.stage === stage;
  };
  const filter = (): Overlay => {
    const { run } = store, ids = new Set(rows().map((row) => run.id[row]!));
    return {
      name: filterName(), legend: [{ heat: 1, text: "found", count: ids.size }],
      heat: (row) => (ids.has(run.id[row]!) ? 1 : null),
      text: () => "",
      inBox: (inside) => {
        const many = new Set(Array.from(inside, (row) => run.id[row]!).filter((id) => ids.has(id))).size;
        return many ? { heat: 1, text: `${many.toLocaleString("en")} found` } : null;
      },
    };
  };
  const filterName = (): string => `found by ${field.value.trim()}`;
  const isFiltered = (): boolean => !!store.overlay && store.overlay.name === filterName();
  const choose = (at: number): void => {
    const one = found?.hits[at];
    if (one === undefined) return;
    const what = whatOf(one), kind = typeof one === "number" ? "node" : one.kind;
    if (typeof one !== "number" && one.stage !== null) store.go({ stage: one.stage });
    // Where the list lies over the pictures, it leaves the graph before in sight.
    host.classList.toggle("ll-aside", what?.kind === "node" && what.stage < store.place.stage);
    if (what) store.select(what);
    if (typeof one === "number") bring(one);
    else if (one.kind === "scope") bring(one.text);
    else if (what) {
      // Where nothing that is related is left, it stood in the graph before.
      const { run, place: { stage, firing } } = store;
      const near = [[stage, run.alive(stage, firing)], [stage - 1, hasBefore?.() && stage ? run.alive(stage - 1) : null]] as const;
      const rows = near.flatMap(([at, alive]) => (alive ? [...(store.related.nodes[at] ?? [])].map((id) => alive.row(id)) : []));
      const row = rows.find((one) => one >= 0);
      if (row !== undefined) bring(row);
    }
    store.say(typeof one === "number" ? `${found!.removed.has(one) ? "removed node" : "node"} ${store.run.text(one)}` : `${one.kind} ${one.text}`);
    list.refresh();
    went?.(kind);
  };
  const look = (): void => {
    const typed = field.value.trim();
    host.hidden = !typed;
    if (!typed) return;
    place = `${store.place.run} ${store.place.stage} ${store.place.firing}`;
    found = find(store, typed, hasBefore?.());
    const { error, hits, removed, tried, nodes } = found, others = hits.length - rows().length;
    const none = /\w:/.test(typed) ? `No node is so. Fields are ${FIELDS.join(", ")}.` : "Nothing has this in it.";
    const words = error || (hits.length ? `${rows().length.toLocaleString("en")} of ${count(nodes, "node")}${removed.size ? `, ${removed.size.toLocaleString("en")} of them removed` : ""}${others ? `, ${others.toLocaleString("en")} more` : ""}` : none);
    summary.textContent = tried < nodes ? `${words} It took too long: ${count(nodes - tried, "node")} were not searched.` : words;
    all.hidden = rows().length < 2;
    only.hidden = !rows().length;
    list.current = 0;
    list.show(hits.length);
    press();
  };
  const press = (): void => void set(only, { "aria-pressed": String(isFiltered()) });
  const key = (event: KeyboardEvent): void => {
    if (event.isComposing) return;
    const many = found?.hits.length ?? 0;
    if (event.key === "Enter") choose((list.current = (list.current + (field.dataset["chosen"] === field.value ? (event.shiftKey ? many - 1 : 1) : 0)) % Math.max(1, many)));
    else if (event.key === "ArrowDown" && many) list.element.focus();
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
    host.classList.remove("ll-aside");
    if (isFiltered()) store.setOverlay(null);
    field.value = "";
    found = null;
    list.show(0);
    host.hidden = true;
    if (hadFocus) field.focus();
    return had;
  };
  const stops = [
    store.on("place", () => {
      if (host.hidden || place === `${store.place.run} ${store.place.stage} ${store.place.firing}`) return;
      const { current } = list;
      look();
      // Somebody who goes through hits of several passes goes on from where they were.
      if (list.element.contains(document.activeElement) || field === document.activeElement) list.current = Math.min(current, Math.max(0, (found?.hits.length ?? 1) - 1));
    }),
    store.on("bundle", () => !host.hidden && look()),
    store.on("selection", () => !host.hidden && list.refresh()),
    store.on("overlay", press),
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
