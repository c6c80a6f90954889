// Every shortcut there is, and who listens: of one table the help shows what somebody listens for.

/** All of them, by where they mean something: what a handler goes by, the keys as `KeyboardEvent.key` has them, and words. */
export const SHORTCUTS = {
  Everywhere: {
    help: ["?", "show the shortcuts"],
    search: ["/", "search"],
    table: ["t", "picture or table"],
    overlay: ["o", "colour by …"],
    side: ["i", "what is known of the selection"],
    fill: ["w", "fill the window, or not"],
    projector: ["P", "large type for a projector, or not"],
    escape: ["Escape", "close what is open, then select nothing"],
  },
  Picture: {
    source: ["ArrowUp", "to what the node reads"],
    reader: ["ArrowDown", "to what reads the node"],
    left: ["ArrowLeft", "to the neighbour on the left"],
    right: ["ArrowRight", "to the neighbour on the right"],
    toggle: ["Enter Space", "open or close the box"],
    outer: ["Backspace", "to the box around it"],
    expand: ["e", "open all boxes one level further"],
    expandAll: ["E", "open all boxes"],
    collapse: ["c", "close the innermost open boxes"],
    collapseAll: ["C", "close all boxes"],
    ancestors: ["a", "light up all that the node depends on"],
    descendants: ["d", "light up all that depends on the node"],
    fit: ["f", "fit the picture"],
    closer: ["+ =", "closer"],
    further: ["-", "further away"],
    actual: ["0", "actual size"],
  },
  "Lists and tables": {
    next: ["ArrowDown", "next line"],
    previous: ["ArrowUp", "line before"],
    choose: ["Enter Space", "select it"],
  },
  "Passes and firings": {
    previousPass: ["[", "the pass before that changed something"],
    nextPass: ["]", "the next pass that changed something"],
    previousAny: ["{", "the pass before, whatever it did"],
    nextAny: ["}", "the next pass, whatever it did"],
    previousFiring: [",", "one firing back"],
    nextFiring: [".", "one firing on"],
    previousTouch: ["<", "back to a firing that touches the selection"],
    nextTouch: [">", "on to a firing that touches the selection"],
    play: ["p", "play the firings, or pause"],
  },
  Story: {
    storyNext: ["N", "the next step of the story"],
    storyBack: ["B", "the step before"],
  },
  Accesses: {
    nextCell: ["ArrowRight", "to the next access"],
    previousCell: ["ArrowLeft", "to the access before"],
    nextThread: ["ArrowDown", "to the next thread"],
    previousThread: ["ArrowUp", "to the thread before"],
    previousPhase: ["[", "the phase before"],
    nextPhase: ["]", "the next phase"],
  },
  "Chart of candidates": {
    previousCandidate: ["ArrowLeft", "the candidate before"],
    nextCandidate: ["ArrowRight", "the next candidate"],
    firstCandidate: ["Home", "the first candidate"],
    lastCandidate: ["End", "the last candidate"],
  },
} as const satisfies Record<string, Record<string, readonly [keys: string, what: string]>>;

type Where = keyof typeof SHORTCUTS;
type Names<W> = W extends Where ? keyof (typeof SHORTCUTS)[W] : never;
export type ShortcutName = Names<Where>;
/** What each element listens for. */
const offers = new WeakMap<Element, Set<readonly ShortcutName[]>>();

/** Say that an element hears these shortcuts, for the help. Returns how to take it back. */
export function offer(element: Element, names: readonly ShortcutName[]): () => void {
  const known = offers.get(element) ?? new Set();
  offers.set(element, known.add(names));
  return () => known.delete(names);
}

/** The shortcuts that somebody within a root hears, by where they mean something. */
export function offered(root: Element): [where: string, shortcuts: (readonly [keys: string, what: string])[]][] {
  const heard = new Set([root, ...root.querySelectorAll("*")].flatMap((one) => [...(offers.get(one) ?? [])].flat()));
  return Object.entries(SHORTCUTS).flatMap(([where, area]) => {
    const found = Object.entries<readonly [string, string]>(area).flatMap(([name, shortcut]) => (heard.has(name as ShortcutName) ? [shortcut] : []));
    return found.length ? [[where, found]] : [];
  });
}

/** What keys do; a handler that returns false has not used the key. */
export type Handlers = { readonly [K in ShortcutName]?: (event: KeyboardEvent) => void | boolean };

/** Listen within an element; a key that is used goes no further. Returns how to stop. */
export function listen(host: Element, handlers: Handlers): () => void {
  const taken = offer(host, Object.keys(handlers) as ShortcutName[]);
  const known = Object.values(SHORTCUTS).flatMap((area) => Object.entries<readonly [string, string]>(area)).filter(([name]) => name in handlers);
  const heard = (event: Event): void => {
    const pressed = event as KeyboardEvent;
    if (pressed.defaultPrevented || pressed.ctrlKey || pressed.metaKey || pressed.altKey || pressed.isComposing) return;
    if (pressed.key !== "Escape" && isTyped(pressed)) return;
    const key = pressed.key === " " ? "Space" : pressed.key;
    if (known.some(([name, [keys]]) => keys.split(" ").includes(key) && handlers[name as ShortcutName]!(pressed) !== false)) {
      pressed.preventDefault();
      pressed.stopPropagation();
    }
  };
  host.addEventListener("keydown", heard);
  return () => (taken(), host.removeEventListener("keydown", heard));
}

/** Listen at one element for plain keys; `act` says whether it used one, which goes no further then. */
export function keyed(element: HTMLElement, act: (event: KeyboardEvent) => boolean): void {
  element.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !act(event)) return;
    event.preventDefault();
    event.stopPropagation();
  });
}

/** Whether a key belongs to what has the focus: text in a field, Enter at a button. */
function isTyped(event: KeyboardEvent): boolean {
  const target = event.target;
  if (!(target instanceof Element)) return false;
  const acts = event.key === "Enter" || event.key === " ";
  if (target.matches("button,a,summary,[type=checkbox],[type=radio]")) return acts;
  return target.matches("input,textarea,select,[contenteditable]");
}

/**
 * Keep JupyterLab's own shortcuts away from an element, since `x` and `d d` there cut and delete cells.
 * What is pressed with Ctrl or Cmd stays JupyterLab's, so that saving works.
 */
export function alone(root: HTMLElement): void {
  const attribute = "data-lm-suppress-shortcuts";
  root.setAttribute(attribute, "true");
  // It is asked of what has the focus first, and matched there before anything around it is looked at.
  root.addEventListener("focusin", ({ target }) => (target as Element).setAttribute(attribute, "true"));
  const isTheirs = (event: KeyboardEvent): boolean => (event.ctrlKey || event.metaKey) && !isTyped(event);
  root.addEventListener(
    "keydown",
    (event) => {
      if (!isTheirs(event)) return;
      const marked = [root, event.target as Element];
      for (const one of marked) one.removeAttribute(attribute);
      setTimeout(() => marked.forEach((one) => one.setAttribute(attribute, "true")));
    },
    true,
  );
  // Those around have no use for a key that was pressed here.
  root.addEventListener("keydown", (event) => isTheirs(event) || event.stopPropagation());
}
