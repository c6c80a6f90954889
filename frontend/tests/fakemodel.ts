// A widget's model as Jupyter has them: what is set and sent, without a kernel.

import type { Model } from "../src/data/live";

type Listener = (...values: unknown[]) => void;

export class FakeModel implements Model {
  readonly sent: unknown[] = [];
  /** What was saved, by trait. */
  readonly saved: [string, unknown][] = [];
  comm_live = true;
  widget_manager: { kernel?: unknown } | undefined = undefined;
  private readonly listeners: [string, Listener][] = [];
  private changed: string[] = [];

  constructor(private readonly state: Record<string, unknown> = {}) {}

  get listening(): number {
    return this.listeners.length;
  }

  get(name: string): unknown {
    return this.state[name];
  }

  set(name: string, value: unknown): void {
    if (JSON.stringify(this.state[name]) === JSON.stringify(value)) return;
    this.state[name] = value;
    this.changed.push(name);
    this.emit(`change:${name}`);
  }

  save_changes(): void {
    for (const name of this.changed) this.saved.push([name, this.state[name]]);
    this.changed = [];
  }

  /** What Python sets comes without being saved. */
  fromPython(name: string, value: unknown): void {
    this.state[name] = value;
    this.emit(`change:${name}`);
  }

  on(event: string, listener: (...values: never[]) => void): void {
    this.listeners.push([event, listener as Listener]);
  }

  off(event?: string | null, listener?: ((...values: never[]) => void) | null): void {
    for (let at = this.listeners.length - 1; at >= 0; at--) {
      const [name, one] = this.listeners[at]!;
      if ((!event || name === event) && (!listener || one === listener)) this.listeners.splice(at, 1);
    }
  }

  send(content: unknown): void {
    this.sent.push(content);
  }

  emit(event: string, ...values: unknown[]): void {
    for (const [name, listener] of [...this.listeners]) if (name === event) listener.apply(this, values);
  }
}
