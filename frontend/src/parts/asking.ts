// Ask the kernel, and say in the pane what it is doing, or why there is no answer.
// Where the answer would run code that a file brought along, it is shown first, and somebody is asked.

import { button, div, fill, h } from "./dom";
import { Refused, type Live, type Reply } from "../data/live";
import { css } from "./styles";

css`
.ll-trust { padding: 6px 8px; border-left: 3px solid var(--ll-bad); background: var(--ll-panel); margin: 6px 0; }
.ll-trust > p { margin: 0 0 6px; } .ll-trust > .ll-bar { padding: 6px 0 0; border: 0; }
.ll-trust > pre { margin: 0 0 6px; padding: 6px; max-height: 16em; overflow: auto; white-space: pre-wrap; overflow-wrap: anywhere; border: 1px solid var(--ll-line); }
`;

/** The answer, or null where there is none; `note` says what happened. */
export async function asked(live: Live, note: HTMLElement, what: string, body: Readonly<Record<string, unknown>>): Promise<Reply | null> {
  const sorry = (sentence: string): null => (fill(note, h("p", { class: "ll-sorry" }, sentence)), null);
  if (!live.hasKernel) return sorry(live.sorry);
  const trust: string[] = [];
  for (;;) {
    fill(note, h("p", { class: "ll-faint" }, "asking the kernel …"));
    try {
      const reply = await live.ask(what, trust.length ? { ...body, trust: [...trust] } : body);
      fill(note);
      return reply;
    } catch (error) {
      if (!(error instanceof Refused)) return sorry((error as Error).message);
      if (!(await allowed(note, error))) return sorry("Nothing was run.");
      trust.push(...error.carried.map((one) => one.digest));
    }
  }
}

/** Show the code, and wait for a yes or a no. */
function allowed(note: HTMLElement, { carried }: Refused): Promise<boolean> {
  return new Promise((answered) => {
    const no = button("Do not run it", "leave it alone", () => answered(false));
    fill(
      note,
      div(
        "ll-trust",
        h("p", null, h("strong", null, "This runs code that a file brought along. "), "It can do whatever you can do on this machine: run it if you trust whoever wrote it."),
        carried.map(({ what, source }) => [h("p", null, what), h("pre", { class: "ll-mono", tabindex: 0, "aria-label": what }, source)]),
        div("ll-bar", button("Run it", "trust this code until the kernel is restarted", () => answered(true)), no),
      ),
    );
    no.focus();
  });
}
