// Goes through the firings of a pass: keys, buttons and a clock share it.

import type { Store } from "../data/store";
import { count } from "../data/units";

const BEAT = 700;

/** Goes through the firings of a pass, or those of one rule. */
export class Stepper {
  rule = "";
  private clock: number | undefined;
  private readonly listeners = new Set<() => void>();

  constructor(private readonly store: Store) {}

  /** The firings that are gone through. */
  shown(): number[] {
    const firings = this.store.run.firings(this.store.place.stage);
    return Array.from({ length: firings.count }, (_, at) => at).filter((at) => !this.rule || firings.rule(at) === this.rule);
  }

  /** The firing that was done last; -1 before the first. */
  get current(): number {
    const { stage, firing } = this.store.place;
    return (firing < 0 ? this.store.run.firings(stage).count : firing) - 1;
  }

  get isPlaying(): boolean {
    return this.clock !== undefined;
  }

  /** Do firings up to one, and select it; -1 takes all back. */
  to(firing: number): void {
    const { run, place } = this.store;
    const firings = run.firings(place.stage);
    this.store.go({ firing: firing + 1 });
    this.store.select(firing < 0 ? null : { kind: "firing", stage: place.stage, firing });
    this.store.say(firing < 0 ? "before the first firing" : `firing ${firing + 1} of ${firings.count}: ${firings.rule(firing)}`);
  }

  /** One on or back; says whether there was one. */
  step(by: 1 | -1): boolean {
    const shown = this.shown();
    // From the whole pass one starts at its beginning.
    const from = by > 0 && this.store.place.firing < 0 ? -1 : this.current;
    const next = by > 0 ? shown.find((one) => one > from) : from < 0 ? undefined : (shown.filter((one) => one < from).at(-1) ?? -1);
    if (next !== undefined) this.to(next);
    return next !== undefined;
  }

  /** All firings done: the whole pass. */
  whole(): void {
    this.store.go({ firing: -1 });
    this.store.say(`all of ${count(this.store.run.firings(this.store.place.stage).count, "firing")} done`);
  }

  /** To the next firing of any pass that touches what is selected, or to the one before; the selection stays. */
  touch(by: 1 | -1): boolean {
    const { run, place, related, selected } = this.store;
    const say = (sentence: string): boolean => (this.store.say(sentence), true);
    if (!selected) return say("select a node, a line or a rule first");
    // From the whole pass one begins before its first firing, or behind its last.
    const from = place.firing < 0 ? (by > 0 ? -1 : run.firings(place.stage).count) : this.current;
    for (let stage = place.stage; run.stages[stage]; stage += by) {
      const firings = [...related.firings[stage] ?? []].sort((a, b) => by * (a - b));
      const next = firings.find((one) => stage !== place.stage || by * (one - from) > 0);
      if (next === undefined) continue;
      this.store.go({ stage, firing: next + 1 });
      return say(`${run.stages[stage]!.name}, firing ${next + 1} of ${run.firings(stage).count}: ${run.firings(stage).rule(next)}`);
    }
    return say(`no firing ${by > 0 ? "after" : "before"} this one touches the selection`);
  }

  play(isOn = !this.isPlaying): void {
    clearInterval(this.clock);
    this.clock = undefined;
    if (isOn) {
      if (this.current === this.shown().at(-1)) this.to(-1);
      this.clock = setInterval(() => this.step(1) || this.play(false), BEAT) as unknown as number;
    }
    this.tell();
  }

  /** Hear when playing starts and ends, or another rule is chosen. */
  heard(act: () => void): () => void {
    this.listeners.add(act);
    return () => this.listeners.delete(act);
  }

  choose(rule: string): void {
    this.rule = rule;
    this.tell();
  }

  private tell(): void {
    for (const one of this.listeners) one();
  }
}
