// Links to an exact place: a page's fragment follows whoever walks, and leads where it says.

import { fragment, inFragment, readAt, writtenAt } from "../data/at";
import { button, fill, h } from "../parts/dom";
import type { Store } from "../data/store";

const PAUSE = 150;

/** Go where a text says; what is not there is a sentence. */
export function goTo(store: Store, text: string): string | null {
  try {
    const { place, selected } = readAt(text, store.bundle, store.place);
    store.go(place);
    store.select(selected);
    return null;
  } catch (error) {
    return (error as Error).message;
  }
}

/** Have a page's fragment and a store agree; `sorry` is told of a fragment that names nothing. */
export function followFragment(store: Store, sorry: (sentence: string) => void): () => void {
  let clock = 0;
  const read = (): void => {
    const text = inFragment(location.hash);
    if (text === null || text === writtenAt(store)) return;
    const wrong = goTo(store, text);
    if (wrong) sorry(wrong);
  };
  const write = (): void => {
    clearTimeout(clock);
    clock = Number(setTimeout(() => history.replaceState(history.state, "", fragment(writtenAt(store))), PAUSE));
  };
  read();
  const stops = [store.on("place", write), store.on("selection", write)];
  window.addEventListener("hashchange", read);
  return () => {
    clearTimeout(clock);
    window.removeEventListener("hashchange", read);
    for (const stop of stops) stop();
  };
}

/** A button that copies a link: in a page its address, elsewhere the Python that opens the same. */
export function linkButton(store: Store, isPage: () => boolean, note: HTMLElement): HTMLButtonElement {
  return button("link", "copy a link to this pass, firing and selection", () => {
    const at = writtenAt(store);
    const text = isPage() ? location.href.replace(/#.*$/, "") + fragment(at) : `cx.workbench(at=${JSON.stringify(at)})`;
    const shown = h("code", { tabindex: 0 }, text), close = button("×", "close", () => fill(note));
    const say = (words: string): void => void fill(note, h("div", { class: "ll-bar", role: "status" }, words, " ", shown, " ", close));
    navigator.clipboard?.writeText(text).then(
      () => say("Copied:"),
      () => (say("Copy it with Ctrl+C or ⌘C:"), getSelection()?.selectAllChildren(shown)),
    ) ?? say("Copy it with Ctrl+C or ⌘C:");
  });
}
