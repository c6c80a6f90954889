// A guided story above a workbench: "3 of 7", a text, and where to look.

import { button, div, fill, h } from "../parts/dom";
import { listen } from "../parts/keys";
import { sound } from "../data/selected";
import type { Place, Selected, Store } from "../data/store";
import { css } from "../parts/styles";

css`
.ll-story { flex: none; display: flex; gap: 10px; align-items: flex-start; padding: 8px 10px; border-bottom: 2px solid var(--ll-accent); background: var(--ll-chosen); max-height: 30%; overflow: auto; }
.ll-story > p { flex: 1 1 0; margin: 2px 0; white-space: pre-line; font-size: 14px; min-width: 0; overflow-wrap: anywhere; } .ll-story > strong { flex: none; margin: 3px 0; }
.ll-story > div { display: flex; gap: 4px; flex: none; }
.ll-story code { background: var(--ll-panel); border-radius: 3px; padding: 0 3px; }
`;

export interface Step {
  readonly place: Partial<Place>;
  readonly selected: unknown;
  readonly text: string;
}

const MOST = 200;

/** The steps that somebody gives, as far as they are steps. */
export function stepsOf(given: unknown, { bundle }: Store): Step[] {
  if (!Array.isArray(given)) return [];
  return given.slice(0, MOST).flatMap((one: unknown): Step[] => {
    const { place, selection, text } = (one ?? {}) as Readonly<Record<string, unknown>>;
    if (typeof text !== "string" || typeof place !== "object" || !place) return [];
    const run = (place as Partial<Place>).run ?? 0;
    return bundle.runs[run] ? [{ place: place as Partial<Place>, selected: selection, text }] : [];
  });
}

/** A text in which what stands between backquotes is code; nothing else in it means anything. */
export function words(text: string): (string | HTMLElement)[] {
  const parts = text.split("`");
  if (parts.length % 2 === 0) parts.splice(-2, 2, parts.slice(-2).join("`"));
  return parts.map((part, at) => (at % 2 ? h("code", null, part) : part));
}

/** Tell a story above a host; returns how to stop. */
export function tell(store: Store, steps: readonly Step[], root: HTMLElement, host: HTMLElement): () => void {
  let at = 0;
  const count = h("strong"), text = h("p", { role: "status" });
  const back = button("Back", "the step before (B)", () => go(at - 1));
  const again = button("Look here", "back to where this step looks", () => go(at));
  const next = button("Next", "the next step (N)", () => go(at + 1));
  const bar = div("ll-story", count, text, div("", back, again, next));
  bar.setAttribute("role", "region");
  bar.setAttribute("aria-label", "story");
  const selectedOf = (step: Step): Selected | null => sound(step.selected, store.bundle.runs[step.place.run ?? 0]!);
  const show = (): void => {
    fill(count, `${at + 1} of ${steps.length}`);
    fill(text, words(steps[at]!.text));
    back.disabled = at === 0;
    next.disabled = at === steps.length - 1;
    where();
  };
  /** Whether one has walked away from where the step looks. */
  const where = (): void => {
    const step = steps[at]!, { place, selected } = store;
    const isHere = (["run", "stage", "firing"] as const).every((part) => (step.place[part] ?? place[part]) === place[part]) && JSON.stringify(selectedOf(step)) === JSON.stringify(selected);
    again.hidden = isHere;
  };
  const go = (to: number): boolean => {
    if (!steps[to]) return false;
    at = to;
    store.go(steps[at]!.place);
    store.select(selectedOf(steps[at]!));
    show();
    return true;
  };
  host.before(bar);
  // A link into the page says where to begin; the story waits there.
  if (typeof location === "undefined" || !location.hash.startsWith("#at=")) go(0);
  else show();
  const stops = [store.on("place", where), store.on("selection", where), listen(root, { storyNext: () => go(at + 1), storyBack: () => go(at - 1) })];
  return () => {
    for (const stop of stops) stop();
    bar.remove();
  };
}
