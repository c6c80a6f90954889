// And if? Another schedule of a kernel, tried beside its own: a text to edit, and a board of all that was tried.

import { asked } from "../parts/asking";
import { button, div, fill, h, s, span } from "../parts/dom";
import { editor } from "../parts/editor";
import { code, textsDiffer } from "./kernels";
import { KernelChoice, NO_KERNELS } from "./source";
import type { Board, Try, Within } from "../data/facts";
import type { Live } from "../data/live";
import type { Pane, Store } from "../data/store";
import { css } from "../parts/styles";
import { seconds } from "../data/units";
import { Watch } from "../parts/watch";

css`
.ll-board { border-collapse: collapse; font-variant-numeric: tabular-nums; width: 100%; }
.ll-board td, .ll-board th { padding: 2px 8px 2px 0; text-align: left; vertical-align: middle; white-space: nowrap; } .ll-board tbody > :last-child > td { padding-bottom: 8px; border-bottom: 1px solid var(--ll-line); } .ll-board th { font-weight: 600; color: var(--ll-faint); font-size: 11.5px; }
.ll-board .ll-field { width: 11ch; min-height: 22px; } .ll-board .ll-button { min-height: 22px; padding: 0 6px; }
.ll-board svg { width: 100%; min-width: 36px; height: 14px; display: block; } .ll-board .ll-spread { width: 100%; }
.ll-board .ll-why { white-space: normal; overflow-wrap: anywhere; flex: 1 1 8ch; } .ll-board .ll-select { width: 9ch; min-height: 22px; }
.ll-is-faster { color: var(--ll-good); font-weight: 600; } .ll-is-slower { color: var(--ll-odd); font-weight: 600; } .ll-is-wrong, .ll-is-failed, .ll-is-refused { color: var(--ll-bad); font-weight: 600; }
.ll-boarded { overflow-x: auto; } .ll-deeds { display: flex; flex-wrap: wrap; gap: 3px; align-items: center; }
`;

const CERTAIN = "the median, and where with 95 % certainty that of more rounds would lie";

/** A time with half the width of its interval. */
export function within([middle, low, high]: Within): string {
  return `${seconds(middle)} ± ${seconds((high - low) / 2)}`;
}

const third = (value: number): string => value.toFixed(3);

/** What came of a try, in words. */
export function told({ state, why, place, step }: Try): string {
  return [state, place[0] ? ` in line ${place[0]}, column ${place[1]}` : "", why && `: ${why}`, step && `; values are wrong after “${step}”`].join("");
}

/** A bar to the median, with the interval as a line over it. */
function bar({ seconds: time, state }: Try, longest: number): Element | false {
  if (!time) return false;
  const [middle, low, high] = time.map((value) => (98 * value) / longest) as unknown as Within;
  const fill = state === "faster" ? "var(--ll-good)" : state === "slower" ? "var(--ll-heat)" : "var(--ll-accent)";
  return s(
    "svg",
    { viewBox: "0 0 100 14", preserveAspectRatio: "none", role: "img", "aria-label": within(time) },
    s("rect", { x: 0, y: 3, height: 8, width: middle, fill, opacity: 0.7 }),
    s("rect", { x: low, y: 6.5, height: 1.5, width: Math.max(1, high - low), fill: "var(--ll-text)" }),
  );
}

export function board(store: Store, host: HTMLElement, live: Live): Pane {
  let shown = "";
  const choice = new KernelChoice(store, (kernel) => {
    watch.select({ kind: "kernel", kernel });
    show();
  });
  const text = editor("a schedule to try, one step a line", () => void attempt());
  const name = h("input", { class: "ll-field", placeholder: "name of the try", "aria-label": "name of the try" });
  const note = h("div", { role: "status", class: "ll-answer" });
  const table = h("div", { class: "ll-boarded" });
  const more = h("div");
  const kernel = () => store.run.facts.kernels[choice.current];
  const boards = (): Board[] => store.run.facts.boards.filter((one) => one.kernel === choice.current);

  const ask = (body: Record<string, unknown>) => asked(live, note, "board", { run: store.place.run, kernel: choice.current, ...body });
  const attempt = async (): Promise<void> => {
    const reply = await ask({ schedule: text.text, name: name.value });
    if (!reply) return;
    const place = reply["place"] as readonly [number, number] | undefined;
    if (place) return text.wrong(place[0], place[1], String(reply["wrong"]));
    name.value = "";
    fill(note, h("p", null, String(reply["text"])));
    markRefused(String(reply["tried"]));
  };
  /** Where a step was refused is marked in the text, once the board is here. */
  const markRefused = (tried: string): void => {
    const found = boards().flatMap((one) => one.tries).find((one) => one.name === tried);
    if (found?.place[0]) text.wrong(found.place[0], found.place[1], found.why);
    else if (!found) {
      const stop = store.on("bundle", () => (stop(), queueMicrotask(() => markRefused(tried))));
    }
  };
  /** The number of a board among all of the run. */
  const numberOf = (of: Board): number => store.run.facts.boards.indexOf(of);
  const change = (board: number, act: string, entry: string, more: Record<string, unknown> = {}) => ask({ act, entry, board, ...more });
  const copy = async (one: Try): Promise<void> => {
    fill(more, h("h2", null, `the Python that makes ${one.name}`), code(one.python, "python"));
    try {
      await navigator.clipboard.writeText(one.python);
      fill(note, "Copied.");
    } catch {
      getSelection()?.selectAllChildren(more.querySelector("pre")!);
      fill(note, "The browser keeps its clipboard closed; the text is selected: press Ctrl+C or ⌘C.");
    }
  };
  const compare = (one: Try, other: Try): void =>
    void fill(more, h("h2", null, `${one.name} beside ${other.name}`), one.schedule === other.schedule ? "They have the same steps." : textsDiffer(other.schedule, one.schedule));

  const row = (one: Try, of: Board, longest: number): HTMLElement => {
    const tries = of.tries, isFirst = one.state === "first", isOurs = of.how === "measured", mark = isOurs ? "" : "°", at = numberOf(of);
    const renamed = h("input", { class: "ll-field", value: one.name, "aria-label": `name of ${one.name}`, onchange: () => void change(at, "rename", one.name, { to: renamed.value }) });
    const kept = h("input", { type: "checkbox", checked: one.kept, "aria-label": `keep ${one.name}`, title: "keep it: it is timed again beside each further try", onchange: () => void change(at, "keep", one.name, { kept: kept.checked }) });
    const against = h("select", { class: "ll-select", "aria-label": `compare ${one.name} with`, title: "show what differs", onchange: () => compare(one, tries[Number(against.value)]!) }, h("option", { value: "" }, "diff …"), tries.map((other, at) => other !== one && h("option", { value: at }, other.name)));
    const time = one.modelled === null ? one.seconds && mark + within(one.seconds) : `~${seconds(one.modelled)}`;
    const ratio = one.modelled_ratio === null ? one.ratio && third(one.ratio[0]) : `~${third(one.modelled_ratio)}`;
    const words = told(one);
    return h(
      "tbody",
      { "data-try": one.name },
      h(
        "tr",
        null,
        h("td", null, isFirst || !isOurs ? one.name : renamed),
        h("td", null, isFirst || !isOurs ? "" : kept),
        h("td", null, h("strong", { title: `${CERTAIN}; ${one.rounds} rounds` }, time)),
        h("td", { class: "ll-spread" }, bar(one, longest)),
        h("td", { title: one.ratio ? `${third(one.ratio[1])} to ${third(one.ratio[2])}, of turns taken side by side` : "" }, ratio),
      ),
      h(
        "tr",
        null,
        h(
          "td",
          { colspan: 5 },
          div(
            "ll-deeds",
            div("ll-why", span(`ll-is-${one.state}`, words.slice(0, one.state.length)), words.slice(one.state.length)),
            button("Edit", `put the steps of ${one.name} into the text`, () => ((text.text = one.schedule), text.focus())),
            tries.length > 1 && against,
            button("Python", `copy the Python that makes ${one.name}`, () => void copy(one)),
            !isFirst && isOurs && button("×", `drop ${one.name}`, () => void change(at, "drop", one.name)),
          ),
        ),
      ),
    );
  };
  const draw = (): void => {
    const all = boards();
    fill(
      table,
      all.map((one, at) => {
        const longest = Math.max(...one.tries.map((each) => each.seconds?.[2] ?? 0));
        return [
          h("h2", null, all.length > 1 && `${at + 1} of ${all.length}: `, one.how === "recorded" ? "° recorded, not measured here: " : "", `${one.device}${one.sizes && `, ${one.sizes}`}`, one.model && `; nothing is measured: times are a model's, of ${one.model}`),
          h("table", { class: "ll-board" }, h("thead", null, h("tr", null, h("th", { scope: "col" }, "try"), h("th", { scope: "col" }, "keep"), h("th", { scope: "col", colspan: 2 }, "time"), h("th", { scope: "col", title: "its time as a share of the first one's in the same turn" }, "ratio"))), one.tries.map((each) => row(each, one, longest))),
        ];
      }),
      !all.length && kernel() && h("p", { class: "ll-faint" }, "Change a number or a step and press “Try it”: it is compiled, its values are checked, and it is timed in turns with the schedule that the kernel has. The compile stays as it is."),
    );
  };
  const show = (): void => {
    const of = kernel();
    const key = `${store.place.run} ${choice.current}`;
    if (shown !== key) {
      shown = key;
      text.text = of?.schedule ?? "";
      fill(note);
      fill(more);
    }
    text.element.hidden = !of?.definition;
    fill(lacking, !of ? NO_KERNELS : !of.definition && "This kernel has no schedule: no definition says what it computes.");
    draw();
  };
  const lacking = div("ll-faint");
  const watch = new Watch(store, host, {
    level: "run",
    draw: () => {
      choice.draw();
      show();
    },
    light: (own) => {
      if (own || !store.selected) return;
      choice.follow();
      show();
    },
  });
  const timeAgain = async (): Promise<void> => {
    const ours = boards().filter((one) => one.how === "measured").map(numberOf);
    for (const at of ours) await change(at, "measure", "");
    if (!ours.length) await ask({ act: "measure", entry: "" });
  };
  const measure = button("Time all again", "all tries, in turns with the first", () => void timeAgain());
  host.append(
    div(
      "ll-bar",
      choice.element,
      name,
      button("Try it", "compile it, check its values, and time it beside the first (Ctrl+Enter)", () => void attempt()),
      button("Reset", "the steps that the kernel has", () => ((text.text = kernel()?.schedule ?? ""), text.focus())),
      measure,
      span("ll-faint", live.hasKernel ? "" : "to try needs a kernel"),
    ),
    note,
    div("ll-detail", lacking, text.element, table, more),
  );
  watch.begin();
  return { dispose: () => watch.dispose() };
}
