// Predict, then reveal: the graph before the last pass, what somebody says the pass will do, and what it does.

import { button, div, fill, h } from "../parts/dom";
import { graphView, type GraphView } from "../graph/graph";
import { named } from "../data/named";
import type { Pane, Selected, Side, Store } from "../data/store";
import { css } from "../parts/styles";
import { count } from "../data/units";

css`
.ll-quiz { display: flex; flex: 1 1 0; min-height: 0; } .ll-quiz > .ll-half { flex: 3 1 0; }
.ll-asked { flex: 2 1 0; min-width: 240px; overflow: auto; padding: 8px 14px; border-left: 1px solid var(--ll-line); font-size: 14px; }
.ll-tools { float: right; display: flex; gap: 4px; margin-left: 8px; }
.ll-asked h2 { font-size: 15px; margin: 4px 0 8px; } .ll-asked fieldset { border: 0; padding: 0; margin: 0 0 12px; min-width: 0; } .ll-asked legend { font-weight: 600; padding: 0; margin: 0 0 4px; }
.ll-asked label { display: inline-flex; gap: 4px; align-items: center; margin: 0 10px 2px 0; } .ll-asked .ll-field { width: 9ch; }
.ll-is-right { color: var(--ll-good); font-weight: 600; } .ll-is-not { color: var(--ll-bad); font-weight: 600; }
.ll-asked table { border-collapse: collapse; width: 100%; } .ll-asked td, .ll-asked th { text-align: left; padding: 3px 10px 3px 0; vertical-align: top; } .ll-asked td:last-child { overflow-wrap: anywhere; }
`;

const QUESTIONS = ["How many nodes will there be?", "Which of these nodes go?", "Which rules fire?"] as const;

/** What somebody has said so far: it stays when all is drawn anew, in large type. */
interface Answers {
  readonly chosen: Set<number>;
  ticked: ReadonlySet<string>;
  number: string;
  isRevealed: boolean;
}

const SAID = new WeakMap<Store, Answers>();

/** `tools` stand beside the title. */
export function predict(store: Store, host: HTMLElement, tools: readonly HTMLElement[] = []): Pane {
  const { run } = store, stage = run.stages.length - 1, about = run.stages[stage]!;
  const before = new Set(stage ? Array.from(run.lines(stage - 1), (row) => run.id[row]!) : []);
  const after = new Set(Array.from(run.lines(stage), (row) => run.id[row]!));
  const went = [...before].filter((id) => !after.has(id));
  const fired = Object.keys(about.counts);
  const answers: Answers = SAID.get(store) ?? { chosen: new Set(), ticked: new Set(), number: "", isRevealed: false };
  SAID.set(store, answers);
  const { chosen } = answers;
  let view: GraphView | null = null;
  const caption = div("ll-caption ll-one"), half = div("ll-half", caption);
  const show = (side: Side): void => {
    view?.dispose();
    store.go({ stage: side === "after" ? stage - 1 : stage });
    view = graphView(store, half, { side, minimap: false, pick });
    fill(caption, `${side === "after" ? "before" : "before and after"} ${about.title}: `, view.amount);
  };
  const number = h("input", { type: "number", class: "ll-field", min: 0, value: answers.number, "aria-label": QUESTIONS[0] });
  const list = div("");
  const rules = [...new Set([...Object.keys(run.facts.rules), ...fired])].sort();
  const tick = (rule: string): HTMLInputElement => h("input", { type: "checkbox", value: rule, checked: answers.ticked.has(rule) });
  const boxes = rules.map(tick), none = tick("");
  const told = h("div", { role: "status" });
  const draw = (): void => void fill(list, chosen.size ? [...chosen].map((id) => button(`${named(run, [id])} ×`, `${named(run, [id])} stays`, () => (chosen.delete(id), draw()))) : h("span", { class: "ll-faint" }, "click nodes in the graph, or press Enter at them"));
  /** What is tapped, or has Enter or Space pressed, goes; the second time it stays. Keys may walk past it. */
  const pick = (what: Selected): void => {
    if (answers.isRevealed || what.kind !== "node") return;
    for (const id of what.ids) if (before.has(id) && !chosen.delete(id)) chosen.add(id);
    draw();
    store.say(`${named(run, what.ids)} ${what.ids.every((id) => chosen.has(id)) ? "goes" : "stays"}`);
  };
  const reveal = (): void => {
    answers.isRevealed = true;
    const same = (a: readonly unknown[], b: readonly unknown[]): boolean => a.length === b.length && a.every((one) => b.includes(one));
    const ticked = boxes.filter((box) => box.checked).map((box) => box.value);
    const hasRules = ticked.length > 0 || none.checked;
    const rows: [string, string, string, boolean | null][] = [
      [QUESTIONS[0], number.value, String(about.after), number.value ? number.valueAsNumber === about.after : null],
      [QUESTIONS[1], chosen.size ? named(run, [...chosen]) : "", went.length ? named(run, went) : "none", chosen.size ? same([...chosen], went) : null],
      [QUESTIONS[2], hasRules ? ticked.join(", ") || "none" : "", Object.entries(about.counts).map(([rule, many]) => `${rule} ×${many}`).join(", ") || "none", hasRules ? same(ticked, fired) : null],
    ];
    fill(
      told,
      h("table", null, h("thead", null, h("tr", null, ["question", "you said", "it is"].map((head) => h("th", { scope: "col" }, head)))), h("tbody", null, rows.map(([question, said, is, right]) => h("tr", null, h("td", null, question), h("td", { class: right === null ? "" : right ? "ll-is-right" : "ll-is-not" }, said && `${right ? "✓" : "✗"} ${said}`), h("td", null, is))))),
    );
    show("both");
    told.scrollIntoView?.({ block: "nearest" });
  };
  const again = (): void => {
    answers.isRevealed = false;
    fill(told);
    show("after");
  };
  const asked = div(
    "ll-asked",
    tools.length > 0 && div("ll-tools", ...tools),
    h("h2", null, `What will ${about.title} do to these ${count(before.size, "node")}?`),
    h("fieldset", null, h("legend", null, QUESTIONS[0]), number),
    h("fieldset", null, h("legend", null, QUESTIONS[1]), list),
    h("fieldset", null, h("legend", null, QUESTIONS[2]), rules.map((rule, at) => h("label", null, boxes[at]!, rule)), h("label", null, none, "none")),
    div("ll-bar", button("Reveal", "what the pass does, beside what you said", reveal), button("Hide it again", "back to the graph before", again)),
    told,
  );
  host.append(div("ll-quiz", half, asked));
  draw();
  if (answers.isRevealed) reveal();
  else show("after");
  const keep = (): void => {
    answers.number = number.value;
    answers.ticked = new Set([...boxes, none].filter((box) => box.checked).map((box) => box.value));
  };
  return { dispose: () => (keep(), view?.dispose()) };
}
