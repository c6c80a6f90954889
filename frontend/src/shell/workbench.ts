// The workbench: passes and pictures on the left, and in tabs on the right all that is known of them.

import { cells } from "../panes/cells";
import { chosen, choose } from "../parts/choices";
import { button, div, fill, h } from "../parts/dom";
import { firings, Stepper } from "../panes/firings";
import { kernels } from "../panes/kernels";
import { listen } from "../parts/keys";
import type { Live } from "../data/live";
import { memory } from "../panes/memory";
import { pair } from "../graph/pair";
import { rerun } from "../panes/rerun";
import { helpButton } from "./help";
import { side } from "../panes/side";
import { source } from "../panes/source";
import { split } from "../parts/split";
import type { Pane, Store } from "../data/store";
import { css } from "../parts/styles";
import { tabs } from "../parts/tabs";
import { textDiff } from "../panes/textdiff";
import { nextStage, timeline, told } from "../panes/timeline";
import { times } from "../panes/times";
import { wordsOf } from "../data/words";

css`
.ll-bench { display: flex; flex-direction: column; flex: 1 1 0; min-height: 0; }
.ll-bench > .ll-bar { flex-wrap: nowrap; }
.ll-panel > .ll-side { flex: 1 1 0; border: 0; }
.ll-strip { flex: none; min-width: 0; }
.ll-one { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
`;

export function workbench(store: Store, host: HTMLElement, live: Live): Pane {
  const { place: { stage }, run: { stages }, isPlaced } = store;
  // What the last passes changed says more than that some after them had nothing to do.
  if (!isPlaced && !stages[stage]!.effect) store.go({ stage: nextStage(store.run, stage, -1) || stage });
  const stepper = new Stepper(store);
  const words = div("ll-grow ll-one");
  const clear = button("×", "select nothing (Esc)", () => store.select(null));
  const passes = div("ll-strip");
  const bench = div("ll-bench", div("ll-bar", h("strong", null, store.bundle.title || store.run.title), words, clear, helpButton()), passes);
  host.append(bench);
  const [left, right] = split(bench, "across", "pictures and details", 60);
  const panes: Pane[] = [
    timeline(store, passes),
    pair(store, left),
    tabs(
      right,
      "details",
      {
        firings: (at) => firings(store, at, live, stepper),
        about: (at) => side(store, at.appendChild(h("div")), live),
        diff: (at) => textDiff(store, at),
        source: (at) => source(store, at, live),
        kernels: (at) => kernels(store, at),
        times: (at) => times(store, at),
        memory: (at) => memory(store, at),
        cells: (at) => cells(store, at),
        "re-run": (at) => rerun(store, at, live),
      },
      chosen("tab", "firings"),
      (name) => choose("tab", name),
    ),
  ];
  const mark = (): void => {
    const { selected } = store;
    fill(words, selected ? wordsOf(store, selected) : "select anything: its relatives light up everywhere");
    words.classList.toggle("ll-faint", !selected);
    words.classList.toggle("ll-mono", !!selected);
    words.title = words.textContent;
    clear.hidden = !selected;
  };
  const go = (by: 1 | -1, all = false) => (): boolean => {
    const { stage } = store.place;
    const next = nextStage(store.run, stage, by, all);
    store.go({ stage: next });
    if (next !== stage) store.say(told(store.run.stages[next]!, next));
    return next !== stage;
  };
  const stops = [
    store.on("selection", mark),
    store.on("place", mark),
    listen(host, {
      previousPass: go(-1),
      nextPass: go(1),
      previousAny: go(-1, true),
      nextAny: go(1, true),
      previousFiring: () => stepper.step(-1),
      nextFiring: () => stepper.step(1),
      play: () => stepper.play(),
      escape: () => {
        const had = !!store.selected;
        store.select(null);
        return had;
      },
    }),
  ];
  mark();
  return {
    dispose: () => {
      for (const stop of stops) stop();
      for (const pane of panes) pane.dispose();
      bench.remove();
    },
  };
}
