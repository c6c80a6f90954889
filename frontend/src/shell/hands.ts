// The hands of a picture, the same wherever a graph is shown: search, boxes, colours, relatives, table, keys.

import { collapsed, expanded } from "../graph/boxes";
import { button, fill, h, set, type Child } from "../parts/dom";
import type { GraphView } from "../graph/graph";
import type { Handlers } from "../parts/keys";
import { pictureKey } from "../graph/key";
import { legend } from "../graph/legend";
import type { HitKind } from "../data/finding";
import type { Live } from "../data/live";
import { choices, traced, type Choice } from "../graph/overlays";
import { searching, type Search } from "../panes/search";
import type { Pane, Store } from "../data/store";
import { css } from "../parts/styles";
import { table } from "../panes/table";
import { nextStage, told } from "../panes/timeline";
import { count } from "../data/units";
import { shown } from "../parts/watch";

css`
.ll-middle { display: flex; flex: 1 1 0; min-height: 0; min-width: 0; position: relative; }
.ll-picture { flex: 1 1 0; min-width: 0; min-height: 0; position: relative; display: flex; flex-direction: column; overflow: hidden; }
.ll-select { max-width: min(100%, calc(190px * var(--ll-type, 1))); } .ll-hands .ll-select { max-width: 172px; }
/* It takes what its row has left, as its options are long. */
.ll-hands .ll-select.ll-colours { flex: 100 1 100px; min-width: 0; max-width: 20ch; padding-inline: 4px 0; }
.ll-narrow { container-type: inline-size; }
@container (max-width: 760px) {
  .ll-hands .ll-select { max-width: 110px; }
  .ll-search { position: absolute; top: 0; bottom: 0; z-index: 5; background: var(--ll-ground); width: min(320px, 85%); box-shadow: 0 0 12px rgb(0 0 0 / .25); }
  .ll-search.ll-aside { right: 0; }
}
/* Signs in place of words where all tools do not fit into a row; with a search there are more. */
@container (max-width: 860px) { .ll-button[data-sign] { font-size: 0; } .ll-button[data-sign]::before { content: attr(data-sign) / ""; font-size: 13px; } }
@container (max-width: 1340px) { .ll-hands:has(.ll-find) .ll-select:not(.ll-colours) { max-width: 110px; } .ll-hands:has(.ll-find) .ll-button[data-sign] { font-size: 0; } .ll-hands:has(.ll-find) .ll-button[data-sign]::before { content: attr(data-sign) / ""; font-size: 13px; } }
.ll-projector .ll-button[data-sign] { font-size: 0; } .ll-projector .ll-button[data-sign]::before { content: attr(data-sign) / ""; font-size: 13px; }
@container (max-width: 640px) {
  .ll-side { position: absolute; top: 0; bottom: 0; z-index: 5; background: var(--ll-ground); width: min(320px, 85%); box-shadow: 0 0 12px rgb(0 0 0 / .25); }
  .ll-side { right: 0; }
}
.ll-rest { display: contents; }
.ll-more-tools { display: none; }
@container (max-width: 560px) {
  .ll-more-tools { display: inline-block; }
  .ll-hands .ll-grow, .ll-hands:not(.ll-unfolded) > .ll-rest { display: none; }
  .ll-hands > .ll-rest > * { order: 1; }
  .ll-hands .ll-find { flex: 1 1 90px; width: auto; min-width: 0; }
}
`;

export interface HandsOptions {
  /** Draw into the host of pictures. */
  draw(at: HTMLElement): Pictures;
  /** What stands in the bar before and behind the tools that all have. */
  before?(pictures: Pictures): Child;
  readonly behind?: Child;
  /** Where the field of the search stands, if not in this bar. */
  readonly field?: HTMLElement;
  /** What stands beside the pictures. */
  readonly beside?: Child;
  /** Show what is known of the selection, or hide it. */
  side(): void;
  /** Somebody went to what a search has found. */
  went?(kind: HitKind): void;
}

/** The pictures of a graph that are there at present. */
export interface Pictures extends Pane {
  /** How much is shown, if it is to stand below. */
  readonly amount?: HTMLElement;
  views(): readonly Pick<GraphView, "element" | "fit" | "zoom" | "focus">[];
  /** Those that move by themselves. */
  leads(): readonly Pick<GraphView, "element" | "fit" | "zoom" | "focus">[];
  /** Show the graph before a pass as well; without it what a pass has removed is nowhere to be seen. */
  before?(): void;
}

export interface Hands extends Pane {
  readonly handlers: Handlers;
  readonly search: Search;
}

/** Tools that stand behind "More" where there is little room. */
export function behindMore(...tools: Child[]): HTMLElement {
  return h("span", { class: "ll-rest" }, tools);
}

export function hands(store: Store, host: HTMLElement, live: Live, options: HandsOptions): Hands {
  const picture = h("div", { class: "ll-picture" });
  const cells = h("div", { class: "ll-picture", hidden: true });
  const found = h("div"), explained = h("div");
  host.classList.add("ll-narrow");

  // -- colours -----------------------------------------------------------------------------------

  let offered: Choice[] = [], turn = 0;
  const colours = h("select", { class: "ll-select ll-colours", "aria-label": "Colour by", title: "Colour by … (o)", onchange: () => colour(colours.selectedIndex - 1) });
  const offer = (): void => {
    const { overlay } = store;
    offered = choices(store, live);
    const at = offered.findIndex(({ name }) => name === overlay?.name);
    fill(colours, h("option", null, "colour by"), offered.map(({ name }) => h("option", null, name)), overlay && at < 0 && h("option", null, overlay.name));
    colours.selectedIndex = overlay ? (at < 0 ? offered.length : at) + 1 : 0;
  };
  const colour = (at: number): void => {
    const choice = offered[at];
    const mine = ++turn;
    if (!choice) return store.setOverlay(null);
    explain(null, "The kernel is computing …");
    Promise.resolve()
      .then(() => choice.make())
      .then(
        (overlay) => mine === turn && store.setOverlay(overlay),
        (error: Error) => {
          if (mine !== turn) return;
          store.setOverlay(null);
          explain(error.message, "");
        },
      );
  };
  const explain = (error: string | null, waiting: string): void => {
    if (error) fill(explained, h("p", { class: "ll-sorry", role: "alert" }, error, " ", button("×", "Close", () => fill(explained))));
    else if (waiting && !store.overlay) fill(explained, h("p", { class: "ll-bar ll-faint", role: "status" }, waiting));
    else fill(explained, store.overlay && legend(store.overlay, () => store.setOverlay(null)));
  };
  const recolour = (): void => {
    const name = store.overlay?.name;
    const at = offered.findIndex((one) => one.name === name);
    offer();
    // A number belongs to one graph; what the kernel worked out holds for ids, whatever the pass.
    if (at >= 0 && name !== "numeric error") colour(offered.findIndex((one) => one.name === name));
    else if (name && /depend/.test(name)) store.setOverlay(null);
  };
  const trace = (way: "ancestors" | "descendants"): void => {
    const ids = [...(store.related.nodes[store.place.stage] ?? [])];
    if (!ids.length) return store.say("Select a node first");
    const own = store.selected?.kind === "node" && store.selected.stage === store.place.stage ? store.selected.ids : ids;
    const overlay = traced(store.run, store.place, own, way);
    const isOn = store.overlay?.name === overlay.name;
    store.setOverlay(isOn ? null : overlay);
    store.say(isOn ? "No longer lit" : `Lit: ${overlay.name}, ${count(overlay.legend[1]?.count ?? 0, "node")}`);
  };

  // -- boxes, table ------------------------------------------------------------------------------

  const view = () => store.run.viewOf(store.place.stage);
  let pictures: Pictures;
  const fit = (): void => pictures.leads().forEach((one) => one.fit());
  const zoom = (factor: number) => (): void => pictures.leads().forEach((one) => one.zoom(factor));
  const acts = {
    expand: () => store.setOpen(expanded(view(), store.open, false)),
    expandAll: () => store.setOpen(expanded(view(), store.open, true)),
    collapse: () => store.setOpen(collapsed(view(), store.open)),
    collapseAll: () => store.setOpen(new Set()),
  };
  const tabled = button("Table", "Picture or table (t)", () => toggleTable(), { "aria-pressed": "false" });
  let isMade: Pane | null = null;
  const toggleTable = (): void => {
    cells.hidden = !cells.hidden;
    picture.hidden = !cells.hidden;
    set(tabled, { "aria-pressed": String(!cells.hidden) });
    if (cells.hidden) {
      pictures.views().at(-1)!.element.focus({ preventScroll: true });
      return store.say("Picture");
    }
    isMade ??= table(store, cells);
    shown(cells);
    cells.querySelector<HTMLElement>("[role=grid]")?.focus();
    store.say(`Table of ${count(store.run.alive(store.place.stage, store.place.firing).size, "node")}`);
  };
  const traces = [
    button("Ancestors", "Light up all that the selection depends on (a)", () => trace("ancestors"), { "data-sign": "↑" }),
    button("Descendants", "Light up all that depends on the selection (d)", () => trace("descendants"), { "data-sign": "↓" }),
  ];
  const enable = (): void => traces.forEach((one) => (one.disabled = store.selected === null));
  const search = searching(store, found, {
    bring: (what) => {
      if (!cells.hidden) return;
      if (typeof what === "number" && store.run.homeOf(what, store.place.stage) < store.place.stage) pictures.before?.();
      const cover = found.hidden ? undefined : found.getBoundingClientRect();
      for (const one of pictures.views()) one.focus(what, cover);
    },
    hasBefore: () => pictures.before !== undefined,
    went: (kind) => options.went?.(kind),
  });
  const bar = h("div", { class: "ll-bar ll-hands", role: "toolbar", "aria-label": "Tools" });
  // Where there is little room the rest of the tools stands behind a button.
  const more = button("More", "More tools, or fewer", () => unfold(!bar.classList.contains("ll-unfolded")), { class: "ll-button ll-more-tools", "aria-expanded": "false" });
  const unfold = (isWhole: boolean): void => {
    bar.classList.toggle("ll-unfolded", isWhole);
    set(more, { "aria-expanded": String(isWhole) });
  };
  host.append(bar, explained, h("div", { class: "ll-middle" }, found, picture, cells, options.beside));
  // The host is in the page by now, and as large as it will be.
  pictures = options.draw(picture);
  // A graph that stands alone says its amount here.
  const key = pictureKey(store, picture, pictures.amount, pictures.amount ? "after" : "both");
  fill(
    bar,
    options.before?.(pictures),
    h("span", { class: "ll-group" }, button("−", "Further away (-)", zoom(1 / 1.4)), button("Fit", "Fit the picture (f)", fit), button("+", "Closer (+)", zoom(1.4))),
    h(
      "span",
      { class: "ll-group" },
      button("Open", "Open all boxes one level further (e)", acts.expand, { "data-sign": "⊞" }),
      button("Open all", "Open all boxes (E)", acts.expandAll, { "data-sign": "⊞⊞" }),
      button("Close", "Close the innermost open boxes (c)", acts.collapse, { "data-sign": "⊟" }),
      button("Close all", "Close all boxes (C)", acts.collapseAll, { "data-sign": "⊟⊟" }),
    ),
    behindMore(colours, h("span", { class: "ll-group" }, traces)),
    h("span", { class: "ll-grow" }),
    !options.field && search.field,
    behindMore(tabled),
    more,
    options.behind,
  );
  if (options.field) fill(options.field, search.field);

  const step = (by: 1 | -1, all = false) => (): boolean => {
    const { stage } = store.place;
    const next = nextStage(store.run, stage, by, all);
    store.go({ stage: next });
    if (next !== stage) store.say(told(store.run.stages[next]!, next));
    return next !== stage;
  };
  // Of a graph alone there is nothing to step through.
  const passes: Handlers = store.bundle.runs.some(({ stages }) => stages.length > 1)
    ? { previousPass: step(-1), nextPass: step(1), previousAny: step(-1, true), nextAny: step(1, true) }
    : {};
  const stops = [
    store.on("place", recolour),
    store.on("bundle", recolour),
    store.on("overlay", () => (offer(), explain(null, ""))),
    store.on("selection", enable),
  ];
  offer();
  explain(null, "");
  enable();
  return {
    search,
    handlers: {
      ...acts,
      ...passes,
      search: () => search.field.focus(),
      table: toggleTable,
      side: () => options.side(),
      overlay: () => {
        unfold(true);
        colours.focus();
      },
      ancestors: () => trace("ancestors"),
      descendants: () => trace("descendants"),
      fit,
      closer: zoom(1.4),
      further: zoom(1 / 1.4),
      escape: () => {
        if (search.clear()) return true;
        if (store.overlay) store.setOverlay(null);
        else if (store.selected) store.select(null);
        else return false;
        return true;
      },
    },
    dispose: () => {
      for (const stop of stops) stop();
      for (const pane of [pictures, key, search, isMade]) pane?.dispose();
    },
  };
}
