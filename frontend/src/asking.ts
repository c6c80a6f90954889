// Ask the kernel, and say in the pane what it is doing, or why there is no answer.

import { fill, h } from "./dom";
import type { Live, Reply } from "./live";

/** The answer, or null where there is none; `note` says what happened. */
export async function asked(live: Live, note: HTMLElement, what: string, body: Readonly<Record<string, unknown>>): Promise<Reply | null> {
  const sorry = (sentence: string): null => (fill(note, h("p", { class: "ll-sorry" }, sentence)), null);
  if (!live.hasKernel) return sorry(live.sorry);
  fill(note, h("p", { class: "ll-faint" }, "asking the kernel …"));
  try {
    const reply = await live.ask(what, body);
    fill(note);
    return reply;
  } catch (error) {
    return sorry((error as Error).message);
  }
}
