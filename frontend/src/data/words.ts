// What is selected, and where one looks, in words.

import { named } from "./named";
import type { Selected, Store } from "./store";
import { count } from "./units";

/** Where one looks: the pass, and which of its firings was done last. */
export function placeWords({ run, place: { stage, firing } }: Store): string {
  const { title, name, before, after, effect } = run.stages[stage]!;
  if (!stage) return `as written, ${count(after, "node")}`;
  const firings = run.firings(stage), pass = name || title;
  if (firing < 0) return `${pass}: ${effect ? `${before.toLocaleString("en")} → ${count(after, "node")}` : "no change"}`;
  return firing ? `${pass}: firing ${firing} of ${firings.count}, ${firings.rule(firing - 1)}` : `${pass}: before the first of ${count(firings.count, "firing")}`;
}

/** What is selected, in words. */
export function wordsOf(store: Store, selected: Selected): string {
  const { run } = store;
  const { facts } = run;
  switch (selected.kind) {
    case "node": {
      const row = run.alive(selected.stage).row(selected.ids[0]!);
      return selected.ids.length > 1 ? `${selected.ids.length} nodes` : row < 0 ? named(run, selected.ids) : run.text(row);
    }
    case "scope": {
      // What is no scope, but a stretch of lines or equal ones, goes by what its box says.
      const view = run.viewOf(selected.stage), box = /[@…]/.test(selected.path) ? view.box(view.thingAt(selected.path)) : undefined;
      return box?.name ?? `scope ${selected.path}`;
    }
    case "line": {
      const line = run.origins[selected.origin];
      return line ? `${line.file}, line ${line.line}: ${line.code}` : "a line";
    }
    case "firing":
      return `firing ${selected.firing + 1} of ${run.stages[selected.stage]!.title}: ${run.firings(selected.stage).rule(selected.firing)}`;
    case "rule":
      return `rule ${selected.rule}`;
    case "kernel":
      return `kernel ${facts.kernels[selected.kernel]?.name ?? selected.kernel}`;
    case "launch":
      return `launch ${selected.launch}: ${facts.launches[selected.launch]?.name ?? ""}`;
    case "source":
      return `${{ c: "C", cuda: "CUDA", metal: "Metal", webgpu: "WGSL", stablehlo: "StableHLO" }[selected.dialect] ?? selected.dialect} of ${facts.kernels[selected.kernel]?.name ?? "a kernel"}, line ${selected.line}`;
    case "buffer":
      return `buffer ${facts.buffers[selected.buffer]?.name ?? selected.buffer}`;
  }
}
