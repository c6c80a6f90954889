// What all panes share: where we are, what is selected, and what is related to it.

import type { Bundle } from "./bundle";
import type { Run } from "./model";
import { related, type Related } from "./relations";
import { sound, type Selected } from "./selected";

export type { Selected } from "./selected";

/** Where we look: a run, the graph after one of its stages, and how many firings of it are done. */
export interface Place {
  readonly run: number;
  readonly stage: number;
  /** How many firings of the stage are done; -1 for all of them. */
  readonly firing: number;
}

/** Which graph of a pass a picture shows. */
export type Side = "before" | "after" | "both";

/** What an overlay says of a node, or of all that a closed box hides. */
export interface Worth {
  /** From 0 to 1; null where there is no amount. */
  readonly heat: number | null;
  readonly text: string;
  /** A colour of CSS, for what is of a class and has no amount. */
  readonly tint?: string | null;
}

/** One line of an overlay's legend. */
export interface Entry extends Worth {
  readonly count?: number;
}

/** What is shown at nodes: a heat or a tint for each row, and what it says in words. */
export interface Overlay {
  readonly name: string;
  readonly legend: readonly Entry[];
  heat(row: number): number | null;
  /** "" where there is nothing to say. */
  text(row: number): string;
  tint?(row: number): string | null;
  inBox?(rows: ArrayLike<number>): Worth | null;
}

export interface Events {
  /** Another run, stage or firing. */
  place: Place;
  /** Another selection, or none. */
  selection: Selected | null;
  /** What the pointer is over, or the keyboard's focus: shown faintly. */
  hover: Selected | null;
  /** Boxes were opened or closed; the frames that are open, by the path of their box. */
  open: ReadonlySet<string>;
  overlay: Overlay | null;
  /** A new bundle came from the kernel. */
  bundle: Bundle;
  /** Something for the live region to say. */
  said: string;
}

type Listener<T> = (value: T) => void;

export class Store {
  bundle: Bundle;
  place: Place;
  selected: Selected | null = null;
  hovered: Selected | null = null;
  overlay: Overlay | null = null;
  /** The paths of the boxes that somebody has left open, which mean the same in every view. */
  private left: ReadonlySet<string> | null = null;
  private readonly listeners = new Map<keyof Events, Set<Listener<never>>>();
  private found: Related | null = null;
  /** Where somebody wants to go whose view is still to come. */
  private wanted: Place | null = null;

  constructor(bundle: Bundle, place?: Partial<Place>) {
    this.bundle = bundle;
    this.place = this.inside({ run: 0, firing: -1, ...place });
  }

  /** A place that is there: where a run begins if no stage is named. */
  private inside(place: Partial<Place>): Place {
    const within = (value: number | undefined, most: number, otherwise: number): number =>
      Number.isInteger(value) && value! >= 0 ? Math.min(value!, most) : otherwise;
    const run = within(place.run, this.bundle.runs.length - 1, 0);
    const { stages, first } = this.bundle.runs[run]!, last = stages.length - 1;
    const stage = within(place.stage, last, first);
    return { run, stage, firing: within(place.firing, this.bundle.runs[run]!.stages[stage]!.firings, -1) };
  }

  get run(): Run {
    return this.bundle.runs[this.place.run]!;
  }

  /** The paths of the boxes that are open: as each view begins, until somebody opens or closes one. */
  get open(): ReadonlySet<string> {
    return this.left ?? this.run.viewOf(this.place.stage).open;
  }

  /** What the selection is related to, in every pane. */
  get related(): Related {
    return (this.found ??= related(this.run, this.selected));
  }

  on<K extends keyof Events>(event: K, listener: Listener<Events[K]>): () => void {
    let known = this.listeners.get(event);
    if (!known) this.listeners.set(event, (known = new Set()));
    known.add(listener as Listener<never>);
    return () => known.delete(listener as Listener<never>);
  }

  private tell<K extends keyof Events>(event: K, value: Events[K]): void {
    for (const listener of [...(this.listeners.get(event) ?? [])]) (listener as Listener<Events[K]>)(value);
  }

  go(place: Partial<Place>): void {
    const { run, stage, firing } = this.place;
    const isOther = place.run !== undefined && place.run !== run;
    const next = this.inside(isOther ? place : { run, stage, ...(place.stage === undefined ? { firing } : {}), ...place });
    const isHere = this.bundle.runs[next.run]!.hasView(next.stage);
    this.wanted = isHere ? null : next;
    if (!isHere) return this.say("The graphs of this pass are being laid out.");
    if (next.run === run && next.stage === stage && next.firing === firing) return;
    this.place = next;
    const hadSelected = this.selected !== null && (next.run !== run || this.isLeft(this.selected));
    if (hadSelected) {
      this.found = null;
      this.selected = null;
      this.left = null;
    }
    this.tell("place", next);
    if (hadSelected) this.tell("selection", null);
  }

  /** Go to a run whose data may still be on its way. */
  goWhenThere(run: number, went: () => void = () => undefined): void {
    const go = (): void => {
      went();
      this.go({ run });
    };
    if (this.bundle.runs[run]) return go();
    const stop = this.on("bundle", () => {
      stop();
      queueMicrotask(go);
    });
  }

  /** Whether what is selected is a firing that is no longer looked at. */
  private isLeft(selected: Selected): boolean {
    const { stage, firing } = this.place;
    return selected.kind === "firing" && (selected.stage !== stage || selected.firing !== firing - 1);
  }

  select(what: Selected | null): void {
    if (JSON.stringify(what) === JSON.stringify(this.selected)) return;
    this.selected = what;
    this.found = null;
    this.tell("selection", what);
  }

  hover(what: Selected | null): void {
    this.hovered = what;
    this.tell("hover", what);
  }

  setOpen(open: ReadonlySet<string>): void {
    this.left = open;
    this.tell("open", open);
  }

  setOverlay(overlay: Overlay | null): void {
    this.overlay = overlay;
    this.tell("overlay", overlay);
  }

  /** Show another bundle, at a place that it has; what is selected stays if it has that, too. */
  setBundle(bundle: Bundle): void {
    this.bundle = bundle;
    this.found = null;
    const wanted = this.wanted;
    this.place = this.inside(this.place);
    const kept = sound(this.selected, this.run);
    const lost = this.selected !== null && kept === null;
    this.selected = kept;
    this.tell("bundle", bundle);
    this.tell("place", this.place);
    if (lost) this.tell("selection", null);
    if (wanted) this.go(wanted);
  }

  say(sentence: string): void {
    this.tell("said", sentence);
  }
}

/** A part of the page that draws into a host and listens to a store. */
export interface Pane {
  dispose(): void;
}
