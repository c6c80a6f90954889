// The explorer: one graph as a picture or a table, with search, colours, and all that is known of a node.

import { choose, chosen } from "../parts/choices";
import { button, fill, h, set } from "../parts/dom";
import { graphView } from "../graph/graph";
import { openButton } from "./dropping";
import { behindMore, hands } from "./hands";
import { listen } from "../parts/keys";
import type { Live } from "../data/live";
import { helpButton } from "./help";
import { side } from "../panes/side";
import type { Pane, Store } from "../data/store";
import { css } from "../parts/styles";
import { shown } from "../parts/watch";

css`
.ll-through { width: 110px; margin: 0 4px; accent-color: var(--ll-accent); }
`;

/** Below so many pixels panels lie over the picture; as in the style. */
const NARROW = 640;

export function explorer(store: Store, host: HTMLElement, live: Live): Pane {
  const details = h("div");
  // Where there is little room it would be over the picture.
  details.hidden = chosen("details", "shown") === "hidden" || (host.clientWidth > 0 && host.clientWidth < NARROW);
  const runs = picker("Run", (at) => store.go({ run: at }));
  const stages = picker("Pass", (at) => store.go({ stage: at }));
  const slider = h("input", { type: "range", class: "ll-through", min: 0, step: 1, "aria-label": "From as written to the last pass", title: "From as written to the last pass", oninput: () => store.go({ stage: slider.valueAsNumber }) });
  const where = (): void => {
    const { run, place, bundle } = store;
    slider.hidden = run.stages.length < 2;
    slider.max = String(run.stages.length - 1);
    slider.value = String(place.stage);
    runs.offer(bundle.runs.map((one, at) => one.title || `run ${at + 1}`), place.run);
    stages.offer(run.stages.map((stage, at) => (at ? `${at}. after ${stage.name || stage.title}${stage.effect ? "" : " (no change)"}` : "as written")), place.stage);
  };
  const known = button("Details", "What is known of the selection (i)", () => toggleSide(), { "aria-expanded": String(!details.hidden) });
  const toggleSide = (): void => {
    details.hidden = !details.hidden;
    choose("details", details.hidden ? "hidden" : "shown");
    set(known, { "aria-expanded": String(!details.hidden) });
    shown(details);
  };
  const tools = hands(store, host, live, {
    draw: (at) => {
      const graph = graphView(store, at, { side: "after" });
      return { amount: graph.amount, views: () => [graph], leads: () => [graph], dispose: () => graph.dispose() };
    },
    before: () => [runs.element, stages.element, slider],
    behind: [behindMore(openButton(live), known), helpButton()],
    beside: details,
    side: toggleSide,
  });
  const panel = side(store, details, live);
  const stops = [listen(host, tools.handlers), store.on("place", where), store.on("bundle", where)];
  where();
  return {
    dispose: () => {
      for (const stop of stops) stop();
      for (const pane of [tools, panel]) pane.dispose();
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
