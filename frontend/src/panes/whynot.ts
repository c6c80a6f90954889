// Questions about a node and a rule or a search: why it found nothing there, and the smallest graph that shows it.

import { asked } from "../parts/asking";
import { button, div, fill, h, link, type Child } from "../parts/dom";
import type { Live } from "../data/live";
import type { Store } from "../data/store";
import { css } from "../parts/styles";

css`
.ll-asking { display: flex; flex-wrap: wrap; gap: 4px; align-items: center; }
.ll-asking select { max-width: 100%; }
.ll-answer p { margin: 4px 0; white-space: pre-line; overflow-wrap: anywhere; }
.ll-answer .ll-link { font: inherit; }
.ll-answer pre { padding: 5px 7px; margin: 4px 0; max-height: 22em; overflow: auto; background: var(--ll-panel); border-radius: 4px; white-space: pre; font: 12px/1.5 var(--ll-mono); }
`;

/** What can be asked of every compile with kernels, beside rules and searches. */
const SCHEDULE = "schedule";

/** A text in which the names of nodes lead to them. */
export function linked(store: Store, text: string): Child[] {
  const { run } = store;
  const ids = new Map<string, number>();
  for (let row = 0; row < run.id.length; row++) ids.set(run.name(row), run.id[row]!);
  return text.split(/(%\w+)/).map((part) => {
    const id = part.startsWith("%") ? ids.get(part.slice(1)) : undefined;
    if (id === undefined) return part;
    return link(part, () => {
      const { stage } = store.place;
      const stages = [stage, ...run.stages.keys()];
      store.select({ kind: "node", stage: stages.find((at) => run.alive(at).row(id) >= 0) ?? stage, ids: [id] });
    });
  });
}

/** Ask why a rule, or a search, found nothing at a node; the answer is put into `note`. */
export async function askWhyNot(store: Store, live: Live, note: HTMLElement, rule: string, id: number): Promise<void> {
  const { run, stage } = store.place;
  const reply = await asked(live, note, "why_not", { run, stage, rule, id });
  if (reply) fill(note, h("p", null, linked(store, String(reply["text"]))));
}

/** Ask for the smallest graph that still shows it, with a test to paste. */
export async function askSmallest(store: Store, live: Live, note: HTMLElement, rule: string, id: number): Promise<void> {
  const { run, stage } = store.place;
  const reply = await asked(live, note, "minimise", { run, stage, rule, id });
  if (!reply) return;
  const test = String(reply["test"]);
  const copy = button("Copy the test", "a test file for pytest", () => void navigator.clipboard?.writeText(test).then(() => store.say("the test is copied")));
  const text = (what: string, label: string): Node => h("pre", { tabindex: 0, role: "group", "aria-label": label }, what);
  fill(note, h("p", null, String(reply["text"])), text(String(reply["graph"]), "the smallest graph"), h("details", null, h("summary", null, "as a test"), text(test, "the test"), copy));
}

/** A choice of passes, rules and searches for a node, and both questions. */
export function questions(store: Store, live: Live, id: number): Child {
  const { facts } = store.run;
  const names = Object.keys(facts.rules).filter((name) => !name.includes("/"));
  const passes = facts.askable.filter((name) => !names.includes(name));
  const all = [...(facts.kernels.length ? [SCHEDULE] : []), ...passes, ...names];
  if (!all.length) return false;
  const choice = h("select", { class: "ll-select", "aria-label": "pass, rule or search" }, all.map((name) => h("option", { value: name }, name)));
  choice.value = all.includes(last) ? last : all[0]!;
  choice.addEventListener("change", () => (last = choice.value));
  const note = div("ll-answer");
  note.setAttribute("role", "status");
  const ask = (how: typeof askWhyNot) => () => void how(store, live, note, (last = choice.value), id);
  return [
    div("ll-asking", choice, button("Why not?", "why it found nothing at this node; asks the kernel", ask(askWhyNot)), button("Smallest graph", "the smallest graph that still shows it; asks the kernel", ask(askSmallest))),
    note,
  ];
}

/** What was asked for last: the next node is often asked the same. */
let last = "";
