// A rule: what it says, its two sides drawn, its Python, what was refused, and why it did not fire here.

import { button, div, fill, h, link, s } from "../parts/dom";
import type { Stepper } from "./stepper";
import { code } from "./kernels";
import type { Live } from "../data/live";
import type { Sketch } from "../data/model";
import { named } from "../data/named";
import type { Pane, Store } from "../data/store";
import { css } from "../parts/styles";
import { Watch } from "../parts/watch";
import { askSmallest, askWhyNot } from "./whynot";

css`
.ll-root .ll-whole pre { white-space: pre-wrap; }
.ll-sides { display: flex; flex-wrap: wrap; align-items: center; gap: 4px 14px; margin: 4px 0; }
.ll-sides > svg { max-width: 100%; font: 11px Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: var(--ll-text); text-anchor: middle; }
.ll-sides rect { fill: var(--ll-op-fill); stroke: var(--ll-op-line); } .ll-sides [rx="9"] { fill: var(--ll-input-fill); stroke: var(--ll-input-line); }
.ll-sides path { fill: none; stroke: var(--ll-edge); }
`;

/** A node of a drawn sketch. */
export interface Placed {
  readonly label: string;
  /** Its middle. */
  x: number;
  readonly y: number;
  readonly width: number;
  readonly reads: readonly Placed[];
}

const LETTER = 6.7, ROW = 40, HIGH = 20;

/** Lay a sketch out: each node below what it reads, in the middle of it where there is room. */
export function laid({ nodes, root }: Sketch): Placed[] {
  const placed = new Map<number, Placed | null>();
  const ends: number[] = []; // of each row
  const visit = (at: number): Placed | null => {
    const node = nodes[at];
    if (!node || placed.has(at)) return placed.get(at) ?? null;
    placed.set(at, null); // a sketch has no cycles; of a damaged one the rest is drawn
    const reads = node.reads.map(visit).filter((one) => one !== null);
    const row = Math.max(-1, ...reads.map((one) => Math.floor(one.y / ROW))) + 1;
    const width = Math.max(26, node.label.length * LETTER + 12);
    const wanted = reads.reduce((sum, one) => sum + one.x / reads.length, 0) - width / 2;
    const left = Math.max(wanted, ends[row] ?? (row ? -Infinity : 0));
    ends[row] = left + width + 10;
    const made = { label: node.label, x: left + width / 2, y: row * ROW + HIGH / 2 + 1, width, reads };
    placed.delete(at); // so that they are in order
    placed.set(at, made);
    return made;
  };
  visit(root);
  const found = [...placed.values()].filter((one) => one !== null);
  const shift = Math.min(...found.map((one) => one.x - one.width / 2));
  for (const one of found) one.x -= shift;
  return found;
}

function picture(sketch: Sketch, label: string): SVGElement {
  const nodes = laid(sketch);
  const [width, height] = [Math.max(0, ...nodes.map((one) => one.x + one.width / 2)) + 2, Math.max(0, ...nodes.map((one) => one.y)) + HIGH / 2 + 1];
  return s(
    "svg",
    { viewBox: `-1 0 ${width} ${height}`, width, height, role: "img", "aria-label": `${label}: ${nodes.map((node) => node.label).join(", ")}` },
    nodes.flatMap(({ reads, x, y }) => reads.map((from, at) => s("path", { d: `M${from.x} ${from.y + HIGH / 2}L${x + 8 * (at - (reads.length - 1) / 2)} ${y - HIGH / 2}` }))),
    nodes.map(({ reads, x, y, width, label }) => [s("rect", { x: x - width / 2, y: y - HIGH / 2, width, height: HIGH, rx: reads.length ? 4 : 9 }), s("text", { x, y: y + 4 }, label)]),
  );
}

/** Draw into `into`, which is somewhere in a pane's `host`. */
export function rules(store: Store, host: HTMLElement, into: HTMLElement, live: Live, stepper: Stepper): Pane {
  let wanted = "";
  let drawnFor = "";
  const body = h("div");
  const answer = h("div", { class: "ll-answer", role: "status" });
  const choice = h("select", { class: "ll-select", "aria-label": "rule to look at", onchange: () => ((wanted = choice.value), show()) });
  const why = button("Why did it not fire here?", "at the node that is selected; asks the kernel", () => void ask(askWhyNot));
  const smallest = button("Smallest graph that shows it", "in which it still fires, or stops for the same reason; asks the kernel", () => void ask(askSmallest));
  fill(into, h("h2", null, "the rule"), div("ll-sides", choice, why, smallest), answer, body);

  const ask = async (how: typeof askWhyNot): Promise<void> => {
    const { stage } = store.place;
    const [id] = store.selected ? (store.related.nodes[Math.max(0, stage - 1)] ?? []) : [];
    if (id === undefined) return void fill(answer, h("p", { class: "ll-sorry" }, "Select a node first: a rule fires at a node."));
    await how(store, live, answer, choice.value, (store.selected?.kind === "node" ? store.selected.ids[0] : undefined) ?? id);
  };
  const current = (): string => {
    const { selected, run, place } = store;
    if (selected?.kind === "rule") return selected.rule;
    if (selected?.kind === "firing") return run.firings(selected.stage).rule(selected.firing);
    const of = run.firings(place.stage);
    return stepper.rule || (of.count ? of.rule(Math.max(0, stepper.current)) : "");
  };
  const list = (): void => {
    const { counts, refusals } = store.run.stages[store.place.stage]!;
    const known = new Set<string>();
    const group = (label: string, names: readonly string[]): Node | false => {
      const fresh = [...new Set(names)].filter((one) => !known.has(one));
      for (const one of fresh) known.add(one);
      return fresh.length > 0 && h("optgroup", { label }, fresh.map((name) => h("option", { value: name }, name)));
    };
    fill(choice, group("fired in this pass", Object.keys(counts)), group("refused in this pass", refusals.map((one) => one.rule)), group("other rules", Object.keys(store.run.facts.rules)));
    into.hidden = !known.size;
  };
  const show = (): void => {
    const { run, place } = store;
    const name = wanted || current() || choice.options[0]?.value || "";
    choice.value = name;
    if (drawnFor === (drawnFor = `${place.run} ${place.stage} ${name}`)) return;
    // A step of this pass that is called like another pass's has the pass before its name.
    const rule = run.facts.rules[`${run.stages[place.stage]!.name}/${name}`] ?? run.facts.rules[name];
    const reasons = new Map<string, number[]>();
    for (const one of run.stages[place.stage]!.refusals) {
      const reason = `${one.because}${one.needs.length ? ` (needs ${one.needs.join(", ")})` : ""}`;
      if (one.rule === name) reasons.set(reason, [...(reasons.get(reason) ?? []), one.node]);
    }
    const side = (sketch: Sketch | null, label: string): Node | string => (sketch ? picture(sketch, label) : "what its function makes");
    fill(answer);
    fill(
      body,
      rule
        ? [
            div("ll-whole", code(rule.text, "form")),
            rule.because && h("p", null, rule.because),
            rule.needs.length > 0 && h("p", null, `assumes: ${rule.needs.join(", ")}`),
            rule.left && div("ll-sides", side(rule.left, "what it looks for"), "→", side(rule.right, "what it puts there")),
            rule.source && h("details", { open: true }, h("summary", null, `source${rule.file ? `: ${rule.file}, line ${rule.line}` : ""}`), code(rule.source, "python")),
          ]
        : name && h("p", null, `${name} is a step of the pass itself, and has no text.`),
      [...reasons].map(([reason, ids]) => h("p", null, h("b", null, `refused ×${ids.length}: `), reason, " at ", ids.slice(0, 9).map((id) => [link(named(run, [id]), () => store.select({ kind: "node", stage: place.stage - 1, ids: [id] })), " "]), ids.length > 9 && "…")),
    );
  };
  const renew = (): void => {
    wanted = "";
    show();
  };
  const watch = new Watch(store, host, {
    level: "firing",
    draw: () => {
      list();
      renew();
    },
    light: () => (store.selected?.kind === "rule" || store.selected?.kind === "firing" ? renew() : show()),
  });
  const stop = stepper.heard(renew);
  watch.begin();
  return { dispose: () => (watch.dispose(), stop()) };
}
