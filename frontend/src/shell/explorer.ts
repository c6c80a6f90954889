// The explorer: one graph as a picture or a table, with search, colours, and all that is known of a node.

import { collapsed, expanded } from "../graph/boxes";
import { choose, chosen } from "../parts/choices";
import { button, fill, h, set } from "../parts/dom";
import { graphView } from "../graph/graph";
import { listen } from "../parts/keys";
import { legend } from "../graph/legend";
import type { Live } from "../data/live";
import { choices, traced, type Choice } from "../graph/overlays";
import { searching } from "../panes/search";
import { helpButton } from "./help";
import { side } from "../panes/side";
import type { Pane, Store } from "../data/store";
import { css } from "../parts/styles";
import { table } from "../panes/table";
import { count } from "../data/units";
import { shown } from "../parts/watch";

css`
.ll-middle { display: flex; flex: 1 1 0; min-height: 0; min-width: 0; position: relative; }
.ll-picture { flex: 1 1 0; min-width: 0; min-height: 0; position: relative; display: flex; flex-direction: column; overflow: hidden; }
.ll-select { max-width: 190px; }
.ll-slide { width: 110px; margin: 0 4px; accent-color: var(--ll-accent); }
@container (max-width: 640px) {
  .ll-side, .ll-search { position: absolute; top: 0; bottom: 0; z-index: 5; background: var(--ll-ground); width: min(300px, 85%); box-shadow: 0 0 12px rgb(0 0 0 / .25); }
  .ll-side { right: 0; }
}
`;

/** Below so many pixels panels lie over the picture; as in the style. */
const NARROW = 640;

export function explorer(store: Store, host: HTMLElement, live: Live): Pane {
  const picture = h("div", { class: "ll-picture" });
  const cells = h("div", { class: "ll-picture", hidden: true });
  const found = h("div"), details = h("div"), explained = h("div");
  // Where there is little room it would be over the picture.
  details.hidden = chosen("details", "shown") === "hidden" || (host.clientWidth > 0 && host.clientWidth < NARROW);
  host.style.containerType = "inline-size";

  // -- what is shown -----------------------------------------------------------------------------

  const runs = picker("Run", (at) => store.go({ run: at }));
  const stages = picker("Pass", (at) => store.go({ stage: at }));
  const slider = h("input", { type: "range", class: "ll-slide", min: 0, step: 1, "aria-label": "From as written to the last pass", title: "From as written to the last pass", oninput: () => store.go({ stage: slider.valueAsNumber }) });
  const where = (): void => {
    const { run, place, bundle } = store;
    slider.hidden = run.stages.length < 2;
    slider.max = String(run.stages.length - 1);
    slider.value = String(place.stage);
    runs.offer(bundle.runs.map((one, at) => one.title || `run ${at + 1}`), place.run);
    stages.offer(run.stages.map((stage, at) => (at ? `${at}. after ${stage.name || stage.title}${stage.effect ? "" : " (no change)"}` : "as written")), place.stage);
  };

  // -- colours -----------------------------------------------------------------------------------

  let offered: Choice[] = [], turn = 0;
  const colours = h("select", { class: "ll-select", "aria-label": "Colour by", title: "Colour by … (o)", onchange: () => colour(colours.selectedIndex - 1) });
  const offer = (): void => {
    const { overlay } = store;
    offered = choices(store, live);
    const at = offered.findIndex(({ name }) => name === overlay?.name);
    fill(colours, h("option", null, "colour by …"), offered.map(({ name }) => h("option", null, name)), overlay && at < 0 && h("option", null, overlay.name));
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

  // -- boxes, panels -----------------------------------------------------------------------------

  const view = () => store.run.viewOf(store.place.stage);
  const graph = graphView(store, picture, { side: "after" });
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
      graph.element.focus({ preventScroll: true });
      return store.say("Picture");
    }
    isMade ??= table(store, cells);
    shown(cells);
    cells.querySelector<HTMLElement>("[role=grid]")?.focus();
    store.say(`Table of ${count(store.run.alive(store.place.stage, store.place.firing).size, "node")}`);
  };
  const known = button("Details", "What is known of the selection (i)", () => toggleSide(), { "aria-expanded": String(!details.hidden) });
  const toggleSide = (): void => {
    details.hidden = !details.hidden;
    choose("details", details.hidden ? "hidden" : "shown");
    set(known, { "aria-expanded": String(!details.hidden) });
    shown(details);
  };
  const search = searching(store, found, {
    focus: (row) => {
      if (cells.hidden) graph.focus(row);
    },
  });
  const traces = [
    button("Ancestors", "Light up all that the selection depends on (a)", () => trace("ancestors")),
    button("Descendants", "Light up all that depends on the selection (d)", () => trace("descendants")),
  ];
  const enable = (): void => traces.forEach((one) => (one.disabled = store.selected === null));

  fill(
    host,
    h(
      "div",
      { class: "ll-bar", role: "toolbar", "aria-label": "Tools" },
      runs.element,
      stages.element,
      slider,
      h("span", { class: "ll-group" }, button("−", "Further away (-)", () => graph.zoom(1 / 1.4)), button("Fit", "Fit the picture (f)", () => graph.fit()), button("+", "Closer (+)", () => graph.zoom(1.4))),
      h("span", { class: "ll-group" }, button("Open", "Open all boxes one level further (e)", acts.expand), button("Open all", "Open all boxes (E)", acts.expandAll), button("Close", "Close the innermost open boxes (c)", acts.collapse), button("Close all", "Close all boxes (C)", acts.collapseAll)),
      colours,
      h("span", { class: "ll-group" }, traces),
      h("span", { class: "ll-grow" }),
      search.field,
      tabled,
      known,
      helpButton(),
    ),
    explained,
    h("div", { class: "ll-middle" }, found, picture, cells, details),
  );
  const panel = side(store, details, live);
  const stops = [
    listen(host, {
      ...acts,
      search: () => search.field.focus(),
      table: toggleTable,
      side: toggleSide,
      overlay: () => colours.focus(),
      ancestors: () => trace("ancestors"),
      descendants: () => trace("descendants"),
      fit: () => graph.fit(),
      closer: () => graph.zoom(1.4),
      further: () => graph.zoom(1 / 1.4),
      escape: () => {
        if (search.clear()) return true;
        if (store.overlay) store.setOverlay(null);
        else if (store.selected) store.select(null);
        else return false;
        return true;
      },
    }),
    store.on("place", () => (where(), recolour())),
    store.on("bundle", () => (where(), recolour())),
    store.on("overlay", () => (offer(), explain(null, ""))),
    store.on("selection", enable),
  ];
  where();
  offer();
  explain(null, "");
  enable();
  return {
    dispose: () => {
      for (const stop of stops) stop();
      for (const pane of [graph, search, panel, isMade]) pane?.dispose();
    },
  };
}

interface Picker {
  readonly element: HTMLElement;
  offer(names: readonly string[], at: number): void;
}

/** A choice that hides where there is only one thing to choose. */
function picker(label: string, pick: (at: number) => void): Picker {
  const element = h("select", { class: "ll-select", "aria-label": label, title: label, onchange: () => pick(element.selectedIndex) });
  return {
    element,
    offer: (names, at) => {
      fill(element, names.map((name) => h("option", null, name)));
      element.selectedIndex = at;
      element.hidden = names.length < 2;
    },
  };
}
