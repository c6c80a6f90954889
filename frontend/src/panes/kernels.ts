// A kernel from what it computes to the nest that runs: definition, each step of its schedule, its launches.

import { div, fill, h, span } from "../parts/dom";
import { changes, type Change } from "../data/facts";
import { drawn, tokens, type Language } from "../parts/highlight";
import { splices, unified } from "../parts/lines";
import { named } from "../data/named";
import { Rows } from "../parts/rows";
import { KernelChoice, NO_KERNELS, values } from "./source";
import type { Pane, Store } from "../data/store";
import { css } from "../parts/styles";
import { diffRow } from "./textdiff";
import { bytes, count, many } from "../data/units";
import { Watch } from "../parts/watch";

css`
.ll-root pre.ll-code { padding: 6px 8px; background: var(--ll-panel); border: 1px solid var(--ll-line); border-radius: 5px; max-height: 340px; }
.ll-code > div { display: flex; width: max-content; min-width: 100%; }
.ll-steps { height: 166px; flex: none; border: 1px solid var(--ll-line); }
`;

/** Text in a box of its own, which the keyboard can scroll. */
export function code(text: string, language: Language, ...children: Node[]): HTMLElement {
  return h("pre", { class: "ll-code", tabindex: 0, role: "group", "aria-label": "text" }, children.length ? children : tokens(text.replace(/\n$/, ""), language).flatMap((line, at) => [at ? "\n" : "", ...drawn(line)]));
}

/** The diff of two texts, unchanged lines folded. */
export function textsDiffer(before: string, after: string): HTMLElement {
  const [old, fresh] = [before, after].map((text) => text.replace(/\n$/, "").split("\n")) as [string[], string[]];
  return code("", "form", ...unified(old.length, splices(old, fresh)).map((line) => div(`ll-is-${line.kind}`, diffRow(line, line.kind === "fold" ? "" : line.kind === "gone" ? old[line.old]! : fresh[line.new]!))));
}

/** What a step on the way to a kernel changed. */
export function changed({ before, after }: Change): HTMLElement | string {
  return before === after ? "Nothing of the program yet: a later rule rests on it." : textsDiffer(before, after);
}

export function kernels(store: Store, host: HTMLElement): Pane {
  let drawnFor = "";
  const choice = new KernelChoice(store, (kernel) => {
    watch.select({ kind: "kernel", kernel });
    show();
  });
  const body = div("ll-detail");
  const nest = h("div");
  let all: Change[] = [];
  const kernel = () => store.run.facts.kernels[choice.current]!;
  // The first row is the whole schedule.
  const steps: Rows = new Rows({
    label: "steps of the schedule",
    class: "ll-mono ll-steps",
    follow: true,
    draw: (at) => [span("ll-lineno", at || "all"), span("", at ? drawn(tokens(all[at - 1]!.text, "form")[0]!) : "the nest that runs")],
    look: (at) => (at === steps.current ? "ll-lit" : ""),
    act: (at) => {
      const step = all[at - 1];
      fill(nest, h("h2", null, step ? `the ${step.what} before and after step ${at}` : "the nest"), step ? changed(step) : code(kernel().nest, "form"));
    },
  });
  const show = (): void => {
    const { launches, kernels } = store.run.facts;
    const of = kernels[choice.current];
    if (drawnFor === (drawnFor = `${store.place.run} ${choice.current}`)) return;
    if (!of) return void fill(body, NO_KERNELS);
    all = changes(of);
    const own = launches.flatMap((launch, at) => (launch.kernel === choice.current ? [{ ...launch, at }] : []));
    fill(
      body,
      values([["operations", many(of.flops)], ["memory", bytes(of.bytes)], ["operations per byte", of.flops && of.bytes ? (of.flops / of.bytes).toFixed(2) : null]]),
      h("h2", null, "what it computes"),
      code(of.definition, "form"),
      of.reason && [h("h2", null, "why it is one kernel"), of.reason],
      all.length > 0 && [h("h2", null, `${of.rules.length ? `how it was found: ${count(of.rules.length, "rule")}, then` : "its schedule:"} ${count(of.steps.length, "step")}`), steps.element],
      nest,
      h("h2", null, count(own.length, "launch", "launches")),
      own.map(({ at, makes, reads, origins }) => {
        const line = store.run.origins[origins[0] ?? -1];
        return h("button", { type: "button", class: "ll-ir", "data-launch": at, onclick: () => watch.select({ kind: "launch", launch: at }) }, `${at}: ${named(store.run, makes)} of ${named(store.run, reads)}${line ? `; ${line.file}, line ${line.line}` : ""}`);
      }),
    );
    steps.current = 0;
    steps.show(all.length + 1);
    steps.act(0);
  };
  const watch = new Watch(store, host, {
    level: "run",
    draw: () => {
      drawnFor = "";
      choice.draw();
      show();
    },
    light: (own) => {
      if (!own) choice.follow();
      show();
      let first: Element | undefined;
      for (const line of body.querySelectorAll<HTMLElement>("[data-launch]"))
        if (line.classList.toggle("ll-lit", !!store.selected && store.related.launches.has(Number(line.dataset["launch"])))) first ??= line;
      if (!own && store.selected?.kind === "launch") first?.scrollIntoView({ block: "nearest" });
    },
  });
  host.append(div("ll-bar", choice.element), body);
  watch.begin();
  return { dispose: () => (watch.dispose(), steps.dispose()) };
}
