// The passes as switches: run them again, changed or off, see what is different, and take the Python along.

import { asked } from "../parts/asking";
import { button, div, fill, h, span } from "../parts/dom";
import { DERIVATION } from "../data/facts";
import { code } from "./kernels";
import type { Live } from "../data/live";
import type { Run } from "../data/model";
import type { Pane, Store } from "../data/store";
import { css } from "../parts/styles";
import { seconds, signed } from "../data/units";
import { Watch } from "../parts/watch";

css`
.ll-switch { display: flex; align-items: center; gap: 6px; }
.ll-switch > [type] { margin: 0; }
.ll-switch > .ll-field { flex: 1 1 0; min-width: 8ch; min-height: 22px; } .ll-switch > .ll-faint { flex: 0 0 19ch; white-space: nowrap; }
.ll-answer { padding: 0 8px; } .ll-answer > p { margin: 6px 0; }
.ll-grid td, .ll-grid th { padding: 2px 12px 2px 0; text-align: left; }
`;

interface Switch {
  text: string;
  isOn: boolean;
}

/** What was answered last, and the run to compare with: a further run may lay the panes out anew. */
interface Kept {
  readonly note: HTMLElement;
  other: number;
}

const KEPT = new WeakMap<Element, Kept>();

function keptIn(root: Element): Kept {
  let kept = KEPT.get(root);
  if (!kept) KEPT.set(root, (kept = { note: h("div", { role: "status", class: "ll-answer" }), other: -1 }));
  return kept;
}

/** The passes that ran; what a search did before them is none. */
function ran({ stages }: Run): string[] {
  return stages.slice(1).flatMap(({ title }) => (title === DERIVATION ? [] : [title]));
}

/** The Python that does what the switches say: what a run says itself, if nothing was changed. */
export function pythonOf(run: Run, passes: readonly Switch[]): string {
  const titles = ran(run);
  if (run.facts.python && passes.every((one, at) => one.isOn && one.text.trim() === titles[at])) return run.facts.python;
  const lines = [""];
  for (const { text, isOn } of passes) {
    if (!isOn) continue;
    const part = `${text.trim()}, `;
    if (lines.at(-1)!.length + part.length > 80) lines.push("");
    lines[lines.length - 1] += part;
  }
  const texts = lines.map((line) => `    ${JSON.stringify(line)}\n`).join("").replace(/, "\n$/, '",\n');
  return `cx.compile(\n${passes.some((one) => one.isOn) ? texts : ""}${run.facts.besides.map((one) => `    ${one},\n`).join("")})\n`;
}

/** What a run comes to, in numbers and how they are said. */
export function summed({ stages, facts }: Run): Map<string, readonly [number, string]> {
  const plain = (value: number): readonly [number, string] => [value, value.toLocaleString("en")];
  const sums = new Map([
    ["nodes at the end", plain(stages.at(-1)!.after)],
    ["kernels", plain(facts.kernels.length)],
    ["launches", plain(facts.launches.length)],
    ["bytes of temporaries", plain(facts.memory?.after ?? 0)],
  ]);
  for (const { device, how, rows } of facts.times) {
    const sum = rows.reduce((sum, row) => sum + row.median, 0);
    sums.set(`${device}, ${how}`, [sum, seconds(sum)]);
  }
  return sums;
}

let made = 0;

export function rerun(store: Store, host: HTMLElement, live: Live): Pane {
  // One stop for the keyboard, in which arrow keys choose.
  const name = `ll-from-${made++}`;
  let passes: Switch[] = [];
  let from = 1;
  const kept = keptIn(host.closest(".ll-root") ?? host);
  const list = h("div", { role: "group", "aria-label": "passes" });
  // Above what scrolls, so that an answer is seen.
  const { note } = kept;
  const text = h("div");
  const difference = h("div");
  const detail = div("ll-detail", difference, list, h("h2", null, "the Python that does this"), text);

  const ask = async (what: string, body: Record<string, unknown>): Promise<number | null> => {
    const reply = await asked(live, note, what, { run: store.place.run, ...body });
    if (reply?.["text"]) fill(note, h("p", null, String(reply["text"])));
    return typeof reply?.["run"] === "number" ? reply["run"] : null;
  };
  const again = async (): Promise<void> => {
    const before = store.place.run;
    const made = await ask("rerun", { from: from - 1, passes: passes.slice(from - 1).map(({ text, isOn }) => ({ text, on: isOn })) });
    if (made === null) return;
    store.goWhenThere(made, () => (kept.other = before));
  };
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(pythonOf(store.run, passes));
      fill(note, "Copied.");
    } catch {
      // Browsers refuse the clipboard to some frames: the text is marked, so that Ctrl-C takes it.
      getSelection()?.selectAllChildren(text);
      fill(note, "The browser keeps its clipboard closed; the text is selected: press Ctrl+C or ⌘C.");
    }
  };
  const python = (): void => void fill(text, passes.length > 0 && code(pythonOf(store.run, passes), "python"));
  const show = (): void => {
    const { stages } = store.run;
    fill(
      list,
      passes.map((one, at) => {
        const { effect, after, before, firings } = stages[at + 1]!;
        const disabled = at + 1 < from;
        const field = h("input", { class: "ll-field ll-mono", value: one.text, "aria-label": `pass ${at + 1}`, disabled, oninput: () => ((one.text = field.value), python()) });
        const box = h("input", { type: "checkbox", title: "on or off", "aria-label": `run ${one.text}`, disabled, checked: one.isOn, onchange: () => ((one.isOn = box.checked), python()) });
        const start = h("input", { type: "radio", name, title: "run again from here on", "aria-label": `from ${one.text} on`, checked: from === at + 1, onchange: () => ((from = at + 1), show(), list.querySelectorAll<HTMLElement>("[type=radio]")[at]!.focus()) });
        return div("ll-switch", start, box, field, span("ll-faint", effect ? `${signed(after - before)} nodes, ×${firings}` : "no effect"));
      }),
      !passes.length && "This graph was not compiled: there are no passes to run again.",
    );
    python();
    compare();
  };
  const compare = (): void => {
    const { runs } = store.bundle;
    const { run: index } = store.place;
    if (runs.length < 2) return void fill(difference);
    if (!runs[kept.other] || kept.other === index) kept.other = index ? index - 1 : 1;
    const [then, now] = [runs[kept.other]!, store.run];
    const [old, fresh] = [summed(then), summed(now)];
    const choice = h("select", { class: "ll-select", "aria-label": "the run to compare with", onchange: () => ((kept.other = Number(choice.value)), compare()) }, runs.map((one, at) => at !== index && h("option", { value: at, selected: at === kept.other }, one.title)));
    const only = (one: Run, two: Run, kind: string, sign: string): Node[] =>
      one.facts.kernels.filter((kernel) => !two.facts.kernels.some((other) => other.definition === kernel.definition)).map((kernel) => div(`ll-ir ll-is-${kind}`, `${sign} ${kernel.name}`));
    fill(
      difference,
      h("h2", null, "beside ", choice),
      h(
        "table",
        { class: "ll-grid" },
        h("tr", null, ["", then.title, now.title, ""].map((one) => h("th", null, one))),
        [...new Set([...old.keys(), ...fresh.keys()])].map((name) => {
          const [a, b] = [old.get(name), fresh.get(name)];
          return h("tr", null, [name, a?.[1], b?.[1], a?.[0] && b && (a[0] === b[0] ? "the same" : `${signed(Math.round(1000 * (b[0] / a[0] - 1)) / 10)} %`)].map((one) => h("td", null, one)));
        }),
      ),
      only(then, now, "gone", "−"),
      only(now, then, "new", "+"),
    );
  };
  const begin = (): void => {
    passes = ran(store.run).map((text) => ({ text, isOn: true }));
    from = 1;
    show();
    detail.scrollTop = 0;
  };
  const watch = new Watch(store, host, { level: "run", draw: begin });
  host.append(
    div(
      "ll-bar",
      button("Run again", "as a further run; the session's own compile stays", () => void again()),
      button("Reset", "the passes as they were", begin),
      button("Time it", "take the time of each launch of this run", () => void ask("time", {})),
      button("Copy the Python", "that does what the switches say", () => void copy()),
      span("ll-faint", live.hasKernel ? "" : "to run needs a kernel"),
    ),
    note,
    detail,
  );
  watch.begin();
  return { dispose: () => watch.dispose() };
}
