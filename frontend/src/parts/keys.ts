// Every shortcut there is, and who listens: one table, which the help shows.

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
    play: ["p", "play the firings, or pause"],
  },
  Story: {
    storyNext: ["N", "the next step of the story"],
    storyBack: ["B", "the step before"],
  },
} as const satisfies Record<string, Record<string, readonly [keys: string, what: string]>>;

export type Where = keyof typeof SHORTCUTS;
type Names<W> = W extends Where ? keyof (typeof SHORTCUTS)[W] : never;
export type ShortcutName = Names<Where>;
/** What keys do; a handler that returns false has not used the key. */
export type Handlers = { readonly [K in ShortcutName]?: (event: KeyboardEvent) => void | boolean };

/** Listen within an element; a key that is used goes no further. Returns how to stop. */
export function listen(host: Element, handlers: Handlers): () => void {
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
  return () => host.removeEventListener("keydown", heard);
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
