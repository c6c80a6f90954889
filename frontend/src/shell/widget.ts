// What anywidget is given: one store for each model, which all its views share, in step with Python.

import { decode } from "../data/bundle";
import { throughModel, type Live, type Model } from "../data/live";
import { ofPython, type Given } from "../graph/overlays";
import { start } from "./page";
import type { Chosen } from "../panes/searchview";
import { isAlone, shell, type Shell, type What } from "./shell";
import { sound } from "../data/selected";
import { Store, type Place } from "../data/store";

interface Rendered {
  readonly model: Model;
  readonly el: HTMLElement;
}

/** Binds a model and a store to each other. */
class Shared {
  readonly live: Live;
  readonly store: Promise<Store>;
  private readonly stops: (() => void)[] = [];

  constructor(private readonly model: Model) {
    this.live = throughModel(model);
    this.store = this.begin();
    // Whoever draws says what went wrong.
    this.store.catch(() => undefined);
  }

  dispose(): void {
    for (const stop of this.stops) stop();
    this.live.dispose();
  }

  private async begin(): Promise<Store> {
    const { model } = this;
    const store = new Store(await decode(bytesOf(model)), model.get("place") as Partial<Place>);
    const selected = sound(model.get("selection"), store.run);
    if (selected) store.select(selected);
    let asked = 0;
    this.hear("change:data", () => {
      const turn = ++asked;
      decode(bytesOf(model)).then(
        (bundle) => turn === asked && store.setBundle(bundle),
        (error: unknown) => store.say(error instanceof Error ? error.message : String(error)),
      );
    });
    this.hear("change:place", () => store.go(model.get("place") as Partial<Place>));
    this.hear("change:selection", () => store.select(sound(model.get("selection"), store.run)));
    const overlaid = (): void => {
      const given = (model.get("options") as { overlay?: Given | null } | null)?.overlay;
      if (given || store.overlay?.name === last) store.setOverlay(given ? ofPython(store.run, given) : null);
      last = given ? (store.overlay?.name ?? null) : null;
    };
    let last: string | null = null;
    this.hear("change:options", overlaid);
    overlaid();
    this.stops.push(
      store.on("selection", (what) => this.tell("selection", what ?? {})),
      store.on("place", (place) => this.tell("place", place)),
    );
    this.tell("place", store.place);
    // What is not in sight is sent when the rest has been painted.
    if (!store.bundle.runs.every((run) => run.isWhole))
      requestAnimationFrame(() => setTimeout(() => this.live.ask("rest").catch((error: unknown) => store.say(error instanceof Error ? error.message : String(error)))));
    this.hear("comm_live_update", () => this.live.hasKernel || store.say(this.live.sorry));
    return store;
  }

  private hear(event: string, act: () => void): void {
    this.model.on(event, act as never);
    this.stops.push(() => this.model.off(event, act as never));
  }

  /** Models compare: what Python itself has sent does not go back. */
  private tell(trait: string, value: object): void {
    if (same(this.model.get(trait), value)) return;
    this.model.set(trait, { ...value });
    this.model.save_changes();
  }
}

/** Made by anywidget once for each model. */
export default function made() {
  let shared: Shared | null = null;
  return {
    initialize: ({ model }: { model: Model }) => {
      shared = new Shared(model);
      return () => shared?.dispose();
    },
    render: ({ model, el }: Rendered) => {
      const what = model.get("what") as What;
      const options = model.get("options") as { theme?: string; story?: unknown } | null;
      const own = (shared ??= new Shared(model));
      const unhide = hidePicture(model);
      let pane: Shell | null = null, isGone = false;
      const draw = (given: Store | Uint8Array | Error): void => {
        if (!isGone) pane = shell(el, given, { what, theme: options?.theme ?? "auto", live: own.live, ...(chosen && { chosen }), story: options?.story });
      };
      const renew = (): void => pane?.renew(bytesOf(model));
      // A graph's selection is its store's, which tells what it means.
      const chosen = isAlone(what) ? chosenOf(model, renew) : undefined;
      if (chosen) {
        draw(bytesOf(model));
        model.on("change:data", renew);
      } else own.store.then(draw, draw);
      return () => {
        isGone = true;
        model.off("change:data", renew);
        chosen?.dispose();
        pane?.dispose();
        unhide();
      };
    },
  };
}

/** Which candidate of a search is chosen, as Python and other views have it; they are heard from. */
function chosenOf(model: Model, changed: () => void): Chosen & { dispose(): void } {
  let isTelling = false;
  const heard = (): void => void (isTelling || changed());
  model.on("change:selection", heard);
  return {
    current: () => {
      const at = (model.get("selection") as { candidate?: unknown } | null)?.candidate;
      return typeof at === "number" ? at : null;
    },
    tell: (candidate) => {
      isTelling = true;
      model.set("selection", { candidate });
      isTelling = false;
      model.save_changes();
    },
    dispose: () => model.off("change:selection", heard),
  };
}

function bytesOf(model: Model): Uint8Array {
  const data = model.get("data");
  if (ArrayBuffer.isView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  if (data instanceof ArrayBuffer) return new Uint8Array(data);
  return new Uint8Array();
}

function same(left: unknown, right: unknown): boolean {
  const sorted = (value: unknown): unknown =>
    value && typeof value === "object" && !Array.isArray(value) ? Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)) : value;
  return JSON.stringify(sorted(left)) === JSON.stringify(sorted(right));
}

/** How many views hide each element. */
const HIDDEN = new WeakMap<HTMLElement, number>();
/** The picture may be drawn after the widget. */
const LATER = [50, 500, 2000];

/** Hide the static picture that stands above for where nothing is alive; returns how to show it again. */
function hidePicture(model: Model): () => void {
  const id = model.get("picture");
  if (typeof id !== "string" || !id) return () => undefined;
  const found = new Set<HTMLElement>();
  const hide = (): void => {
    for (const one of document.querySelectorAll<HTMLElement>("[data-ll-for]")) {
      if (found.has(one) || one.dataset["llFor"] !== id) continue;
      found.add(one);
      HIDDEN.set(one, (HIDDEN.get(one) ?? 0) + 1);
      one.style.display = "none";
    }
  };
  hide();
  const clocks = LATER.map((after) => setTimeout(hide, after));
  return () => {
    clocks.forEach(clearTimeout);
    for (const one of found) {
      const views = (HIDDEN.get(one) ?? 1) - 1;
      HIDDEN.set(one, views);
      if (!views) one.style.display = "";
    }
  };
}

start();
