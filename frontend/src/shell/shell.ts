// What stands around every picture: its root, theme and style, the live region, the shortcuts, and errors.

import { accesses } from "../panes/accesses";
import { decode } from "../data/bundle";
import { fill, h } from "../parts/dom";
import { dropping } from "./dropping";
import { explorer } from "./explorer";
import { help, helpButton, sizeButtons } from "./help";
import { alone, listen } from "../parts/keys";
import type { Live } from "../data/live";
import { ofPython, type Given } from "../graph/overlays";
import { predict } from "../panes/predict";
import { search, type Chosen, type SearchPane } from "../panes/searchview";
import { stepsOf, tell } from "./story";
import { sound } from "../data/selected";
import { Store, type Pane, type Place } from "../data/store";
import { css, sheet, themed } from "../parts/styles";
import { workbench } from "./workbench";

css`
.ll-root { height: 600px; min-height: 220px; resize: vertical; }
.ll-root.ll-filled { position: fixed; inset: 0; z-index: 10000; height: auto; max-height: none; border: 0; border-radius: 0; resize: none; }
.ll-root:fullscreen { height: 100vh; border: 0; border-radius: 0; resize: none; }
.ll-root.ll-projector { --ll-type: 2; height: min(860px, 94vh); }
.ll-root.ll-projector:fullscreen { height: 100vh; } .ll-projector.ll-filled.ll-root, .ll-projector.ll-page.ll-root { height: auto; } .ll-projector.ll-page.ll-root { height: 100vh; }
.ll-projector :is(.ll-hands, .ll-tabs .ll-bar, .ll-timeline > .ll-bar, .ll-tablist, .ll-graph > p) { --ll-type: 1.3; font-size: 13px; }
.ll-projector .ll-pass > .ll-faint { display: none; }
.ll-page.ll-root { height: 100vh; border: 0; border-radius: 0; resize: none; }
.ll-host { flex: 1 1 0; min-height: 0; min-width: 0; display: flex; flex-direction: column; position: relative; }
.ll-root .ll-host:focus-visible { outline: none; }
`;

export type What = "explorer" | "workbench" | "beside" | "predict" | "accesses" | "search";

export interface ShellOptions {
  readonly what: What;
  readonly theme: string;
  readonly live: Live;
  /** Whether it has a page of its own. */
  readonly isPage?: boolean;
  /** Who else knows what is chosen of a search. */
  readonly chosen?: Chosen;
  /** The steps of a story, as somebody else gives them. */
  readonly story?: unknown;
}

/** What stands in it; a search can be drawn anew. */
export interface Shell extends Pane {
  renew(bytes: Uint8Array): void;
}

/** Draw what a store holds, or the bytes of a search or of who touches what, into an element; an error is said there. */
export function shell(at: HTMLElement, given: Store | Uint8Array | Error, { what, theme, live, isPage, chosen, story }: ShellOptions): Shell {
  const host = h("div", { class: "ll-host", tabindex: -1 });
  const region = h("div", { class: "ll-unseen", role: "status" });
  const words = { explorer: "Graph", workbench: "Workbench", beside: "Beside each other", predict: "Predict, then reveal", accesses: "Accesses of a kernel", search: "Search" }[what];
  const root = h("div", { class: `${themed(theme)}${isPage ? " ll-page" : ""}`, role: "region", "aria-label": words }, h("style", null, sheet()), isPage && h("h1", { class: "ll-unseen" }, document.title), host, region);
  const explain = (): void => help(root);
  const stops: (() => void)[] = [];
  const steps = given instanceof Store ? stepsOf(story, given) : [];
  alone(root);
  // What had the focus may be gone after what it did: the keys stay here all the same.
  const page = at.ownerDocument;
  let staying: ReturnType<typeof setTimeout> | undefined;
  const stay = (event: Event): void => {
    if ((event as KeyboardEvent).key === "Tab") return;
    clearTimeout(staying);
    staying = setTimeout(() => page.activeElement === page.body && host.focus({ preventScroll: true }));
  };
  stops.push(() => clearTimeout(staying));
  for (const event of ["keydown", "click"]) root.addEventListener(event, stay, true);
  // JupyterLab leaves the focus here when somebody clicks at another cell's side.
  const left = ({ target }: Event): void => {
    if (!root.contains(target as Node) && root.contains(document.activeElement)) (document.activeElement as HTMLElement).blur();
  };
  document.addEventListener("pointerdown", left, true);
  // Where a frame may not fill the screen, it fills the window.
  const fillIt = (): void => {
    if (document.fullscreenElement === root) return void document.exitFullscreen();
    if (root.classList.toggle("ll-filled")) void root.requestFullscreen?.().then(() => root.classList.remove("ll-filled"), () => undefined);
  };
  const enlarge = (): void => {
    root.classList.toggle("ll-projector");
    pane?.dispose();
    fill(host);
    pane = drawn();
  };
  listen(root, { help: explain, fill: fillIt, projector: enlarge });
  root.addEventListener("ll-help", explain);
  root.addEventListener("ll-fill", fillIt);
  root.addEventListener("ll-projector", enlarge);
  at.append(root);
  if (given instanceof Store && (what === "explorer" || what === "workbench")) stops.push(dropping(given, root, host, live));
  if (given instanceof Store && steps.length) stops.push(tell(given, steps, root, host));
  let pane: (Pane & Partial<SearchPane>) | null = null, stop = (): void => undefined;
  let now = given;
  const drawn = (): Pane & Partial<SearchPane> => {
    if (now instanceof Error) throw now;
    if (now instanceof Store) return what === "predict" ? predict(now, host, [...sizeButtons(), helpButton()]) : what === "explorer" ? explorer(now, host, live) : workbench(now, host, live, what === "beside");
    return what === "search" ? search(now, host, live, chosen) : accesses(now, host);
  };
  try {
    if (given instanceof Store) {
      stop = given.on("said", (sentence) => {
        // The same words again are news, too.
        region.textContent = region.textContent === sentence ? `${sentence} ` : sentence;
      });
    }
    pane = drawn();
  } catch (error) {
    root.style.height = root.style.minHeight = "auto";
    sorry(host, error);
  }
  // Keys work at once.
  if (isPage) (host.querySelector<HTMLElement>(".ll-graph") ?? host).focus({ preventScroll: true });
  return {
    renew: (bytes) => {
      now = bytes;
      pane?.renew?.(bytes);
    },
    dispose: () => {
      document.removeEventListener("pointerdown", left, true);
      stop();
      for (const one of stops) one();
      pane?.dispose();
      root.remove();
    },
  };
}

/** Whether it is drawn from its own bytes, and is no graph. */
export function isAlone(what: What): boolean {
  return what === "accesses" || what === "search";
}

/** Where a page begins: as Python has it. */
export interface State {
  readonly place?: Partial<Place>;
  readonly selection?: unknown;
  readonly overlay?: Given | null;
  readonly story?: unknown;
}

/** What is drawn of bytes: their store, themselves, or what is wrong with them. */
export async function content(bytes: Uint8Array, what: What, state: State = {}): Promise<Store | Uint8Array | Error> {
  try {
    if (isAlone(what)) return bytes;
    const store = new Store(await decode(bytes), state.place);
    store.select(sound(state.selection, store.run));
    if (state.overlay) store.setOverlay(ofPython(store.run, state.overlay));
    return store;
  } catch (error) {
    return error as Error;
  }
}

/** The sentence of an error, where a reader sees it. */
export function sorry(host: HTMLElement, error: unknown): void {
  host.append(h("p", { class: "ll-sorry", role: "alert" }, error instanceof Error ? error.message : String(error)));
}
