// Into one pass, firing by firing: which rule, what it took out and put in, and why.

import { button, div, fill, h, span, type Child } from "../parts/dom";
import { DERIVATION, derivation } from "../data/facts";
import { drawn, tokens } from "../parts/highlight";
import { changed as changedText } from "./kernels";
import { listing } from "../parts/listing";
import type { Live } from "../data/live";
import { rules } from "./rules";
import type { Stepper } from "./stepper";
import type { Pane, Store } from "../data/store";
import { css } from "../parts/styles";
import { count } from "../data/units";

css`
.ll-firings { flex: 0 1 36%; min-height: 66px; border-bottom: 1px solid var(--ll-line); }
.ll-firings .ll-row { width: 100%; } .ll-row > .ll-why { flex: 1 1 0; min-width: 0; overflow: hidden; text-overflow: ellipsis; }
.ll-fired { flex: none; min-width: min(15ch, 22%); padding-right: 1ch; } .ll-todo { color: var(--ll-faint); } .ll-todo .ll-fired { font-weight: 400; }
.ll-change { flex: 0 1 auto; min-width: 0; overflow: hidden; text-overflow: ellipsis; } .ll-out { color: var(--ll-bad); } .ll-in { color: var(--ll-good); }
.ll-kind { display: inline-block; width: 11px; height: 9px; margin-right: 4px; border: 1.5px solid; border-radius: 2px; }
.ll-detail { flex: 1 1 0; overflow: auto; padding: 4px 8px; min-height: 0; }
.ll-detail h2 { font-size: 13px; margin: 8px 0 4px; color: var(--ll-faint); }
.ll-detail p { margin: 4px 0; white-space: pre-line; }
.ll-ir { display: block; width: 100%; text-align: left; border: 0; border-left: 3px solid transparent; padding: 1px 6px; white-space: pre-wrap; overflow-wrap: anywhere; background: none; color: inherit; cursor: pointer; font: 12px/18px Menlo, Consolas, "DejaVu Sans Mono", monospace; }
.ll-ir:hover { background: var(--ll-hover); } .ll-ir.ll-is-gone { background: var(--ll-removed-fill); } .ll-ir.ll-is-new { background: var(--ll-added-fill); }
.ll-ir.ll-lit { border-color: var(--ll-accent); }
`;

const FEW = 60, HIGH = 22;
/** So many nodes a row names. */
const SOME = 3;

export function firings(store: Store, host: HTMLElement, live: Live, stepper: Stepper): Pane {
  let shown: number[] = [];
  let place = "";
  const where = div("ll-grow ll-faint");
  const filter = h("select", { class: "ll-select", "aria-label": "only of this rule", onchange: () => stepper.choose(filter.value) });
  const play = button("", "play the firings, or pause (p)", () => stepper.play());
  const bar = div(
    "ll-bar",
    h(
      "span",
      { class: "ll-group" },
      button("|◀", "to before the first firing", () => stepper.to(-1)),
      button("◀", "one firing back (,)", () => stepper.step(-1)),
      button("▶", "one firing on (.)", () => stepper.step(1)),
      button("▶|", "to after the last firing", () => stepper.whole()),
    ),
    play,
    button("◀◉", "back to a firing that touches the selection, in any pass (<)", () => stepper.touch(-1)),
    button("◉▶", "on to a firing that touches the selection, in any pass (>)", () => stepper.touch(1)),
    filter,
    where,
  );
  const of = () => store.run.firings(store.place.stage);
  const list = listing(store, host, {
    level: "firing",
    label: "firings",
    class: "ll-mono ll-firings",
    height: HIGH,
    draw: () => {
      const { run, stage, firing } = store.place;
      const { counts } = store.run.stages[stage]!;
      if (place !== (place = `${run} ${stage}`)) {
        if (!(stepper.rule in counts)) stepper.rule = "";
        fill(filter, h("option", { value: "" }, "all rules"), Object.entries(counts).map(([rule, times]) => h("option", { value: rule }, `${rule} ×${times}`)));
        list.rows.current = 0;
      }
      filter.value = stepper.rule;
      bar.hidden = !of().count;
      fill(play, stepper.isPlaying ? "Pause" : "Play");
      fill(where, `${firing < 0 ? "all" : firing} of ${count(of().count, "firing")} done`);
      shown = stepper.shown();
      // No higher than what is in it.
      list.rows.element.style.flexBasis = `min(36%, ${HIGH * shown.length + 6}px)`;
      show();
      return [shown.length];
    },
    row: (at) => {
      const firing = shown[at]!;
      const because = of().because(firing);
      const change = span("ll-change", changed(firing));
      change.title = change.textContent;
      return [span("ll-lineno", firing + 1), firing <= stepper.current ? "● " : "○ ", h("b", { class: "ll-fired" }, of().rule(firing)), change, because && h("span", { class: "ll-faint ll-why", title: because }, `  ${because}`)];
    },
    look: (at) => (shown[at]! > stepper.current ? "ll-todo" : ""),
    isLit: (at) => !!store.related.firings[store.place.stage]?.has(shown[at]!),
    what: (at) => ({ kind: "firing", stage: store.place.stage, firing: shown[at]! }),
    act: (at) => {
      stepper.to(shown[at]!);
      return true;
    },
    follow: true,
    light: (own) => {
      const nodes = store.selected ? store.related.nodes : [];
      for (const line of changes.querySelectorAll<HTMLElement>(".ll-ir")) line.classList.toggle("ll-lit", !!nodes[Number(line.dataset["stage"])]?.has(Number(line.dataset["id"])));
      if (own || store.place.firing < 0) return;
      list.rows.reveal(shown.indexOf(stepper.current));
      return true;
    },
  });
  const changes = h("div");
  const about = h("div");
  /** A node with the colours of its kind: "exp2 %7", a constant's value, a call's body, an input's name. */
  const node = (row: number): Child => {
    const { run } = store, kind = run.kind(row);
    const op = /^(constant|call|launch)$/.test(kind) ? run.label(row) : run.op(row);
    const words = /^(input|parameter)$/.test(kind) ? run.name(row) : kind === "constant" ? op : `${op} %${run.name(row)}`;
    return span("", h("i", { class: "ll-kind", style: `background:var(--ll-${kind}-fill);border-color:var(--ll-${kind}-line)` }), words);
  };
  /** What a firing put in and took out. */
  const changed = (firing: number): Child => {
    const { run } = store, byId = (rows: Uint32Array) => new Map(Array.from(rows, (row) => [run.id[row]!, row] as const));
    const gone = byId(of().gone(firing)), fresh = byId(of().fresh(firing));
    const nodes = (sign: string, look: string, from: Map<number, number>, but?: Map<number, number>): Child => {
      const rows = [...from].flatMap(([id, row]) => (but?.has(id) ? [] : [row]));
      return rows.length > 0 && span(look, sign, rows.length > SOME ? ` ${count(rows.length, "node")}` : rows.map((row) => [" ", node(row)]), gone.size + fresh.size === 1 && span("ll-faint", ` ${run.type(rows[0]!)}`));
    };
    // A node that keeps its id has another op, or reads others.
    const both = [...fresh].filter(([id]) => gone.has(id)), other = new Map(both.filter(([id, row]) => run.op(row) !== run.op(gone.get(id)!)));
    const put = nodes("+", "ll-in", new Map([...fresh].filter(([id]) => other.has(id) || !gone.has(id)))), out = nodes("−", "ll-out", gone, new Map(both));
    return out || put ? [put, put && out && " ", out] : both.length ? nodes("rewires", "ll-change", new Map(both)) : "";
  };
  /** A line of the text form, without digits that nobody reads. */
  const brief = (row: number): (Node | string)[] =>
    drawn(tokens(store.run.text(row), "form")[0]!.map(([kind, text]) => [kind, kind === "number" && text.length > 9 ? String(Number(Number(text).toPrecision(6))) : text]));
  const lines = (rows: Uint32Array, kind: "gone" | "new", stage: number): Node[] => [
    ...Array.from(rows.subarray(0, FEW), (row) => {
      const id = store.run.id[row]!;
      return h("button", { type: "button", class: `ll-ir ll-is-${kind}`, title: store.run.text(row), "data-id": id, "data-stage": stage, onclick: () => list.watch.select({ kind: "node", stage, ids: [id] }) }, span("ll-sign", kind === "gone" ? "− " : "+ "), brief(row));
    }),
    ...(rows.length > FEW ? [h("p", null, `and ${count(rows.length - FEW, "line")} more; the diff has them`)] : []),
  ];
  const show = (): void => {
    const at = stepper.current;
    const { stage } = store.place;
    // Of a kernel's derivation the graph shows nothing: its definition changes, or its nest.
    const step = store.run.stages[stage]!.title === DERIVATION ? derivation(store.run.facts.kernels)[at] : undefined;
    fill(
      changes,
      !of().count
        ? h("p", null, stage ? `${store.run.stages[stage]!.title} has changed nothing: no rule fired.` : "This is the graph as written; each pass has its firings here.")
        : at < 0
          ? h("p", null, "Before the first firing: step on, or choose one.")
          : [h("h2", null, `${of().rule(at)}, firing ${at + 1} of ${of().count}`), h("p", null, of().because(at)), step && [h("h2", null, `the ${step.what} of ${step.kernel} before and after`), changedText(step)], lines(of().gone(at), "gone", stage - 1), lines(of().fresh(at), "new", stage)],
    );
  };
  host.append(bar, list.rows.element, h("div", { class: "ll-detail", tabindex: 0, role: "group", "aria-label": "what the firing did" }, changes, about));
  list.watch.begin();
  const rule = rules(store, host, about, live, stepper);
  const stop = stepper.heard(list.show);
  return { dispose: () => (stop(), rule.dispose(), list.dispose(), stepper.play(false)) };
}
