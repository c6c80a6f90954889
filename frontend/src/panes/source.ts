// The source of a kernel in each language, its lines linked with nodes; what it takes of a GPU; PTX.

import { asked } from "../parts/asking";
import { button, div, fill, h, s, span } from "../parts/dom";
import { drawn, tokens, widest, type Language, type Token } from "../parts/highlight";
import { listing } from "../parts/listing";
import type { Live } from "../data/live";
import type { Source } from "../data/model";
import type { Pane, Selected, Store } from "../data/store";
import { css } from "../parts/styles";
import { tabList } from "../parts/tabs";
import { HOW, tookBy } from "./took";
import { ofRoof, seconds } from "../data/units";

css`
.ll-lineno { flex: none; min-width: 5ch; text-align: right; color: var(--ll-faint); margin-right: 8px; user-select: none; }
.ll-known > .ll-lineno { color: var(--ll-accent); font-weight: 700; text-decoration: underline; text-underline-offset: 2px; }
.ll-facts { display: flex; flex-wrap: wrap; gap: 2px 14px; padding: 5px 8px; border-bottom: 1px solid var(--ll-line); flex: none; }
.ll-took-by { display: grid; grid-template-columns: max-content minmax(40px, 1fr) max-content minmax(0, max-content); align-items: center; gap: 1px 10px; padding: 5px 10px; border-bottom: 1px solid var(--ll-line); font-size: 12px; } .ll-took-by > svg { width: 100%; height: 14px; } .ll-took-by > .ll-faint { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.ll-asm { display: inline-block; min-width: 34ch; } .ll-from { margin-left: 2ch; white-space: pre; }
.ll-pick { max-width: 100%; min-width: 0; }
`;

/** Which source a device runs, by what is chosen above it. */
const RUNS: Readonly<Partial<Record<Dialect, Source["dialect"]>>> = { c: "c", cuda: "cuda", metal: "metal", webgpu: "webgpu", ptx: "cuda" };
const NAMES = { c: "C", cuda: "CUDA", metal: "Metal", webgpu: "WGSL", ptx: "PTX", asm: "assembly", stablehlo: "StableHLO" } as const;
type Dialect = keyof typeof NAMES;
export const NO_KERNELS = "There are no kernels in this run: compile for a device, as in cx.compile(ll.GenericCompiler(), ll.CPUCompiler()).";

/** A choice of kernels, which follows the selection. */
export class KernelChoice {
  current = 0;
  readonly element = h("select", { class: "ll-select ll-pick", "aria-label": "kernel", onchange: () => this.changed((this.current = Number(this.element.value))) });

  constructor(
    private readonly store: Store,
    private readonly changed: (kernel: number) => void,
  ) {}

  draw(): void {
    const { kernels, launches } = this.store.run.facts;
    fill(
      this.element,
      kernels.map((kernel, at) => {
        const times = launches.filter((launch) => launch.kernel === at).length;
        return h("option", { value: at }, kernel.name + (times > 1 ? ` ×${times}` : ""));
      }),
    );
    this.element.hidden = !kernels.length;
    this.current = Math.min(this.current, Math.max(0, kernels.length - 1));
    this.follow();
  }

  /** Show the first kernel that the selection is related to, unless the present one is. */
  follow(): void {
    const { selected, related } = this.store;
    if (selected && related.kernels.size && !related.kernels.has(this.current)) this.current = Math.min(...related.kernels);
    this.element.value = String(this.current);
  }
}

/** Names and values in a line. */
export function values(pairs: readonly (readonly [string, string | number | null])[]): HTMLElement | false {
  return pairs.length > 0 && div("ll-facts", pairs.map(([name, value]) => value !== null && h("span", null, `${name} `, h("strong", null, value))));
}

export function source(store: Store, host: HTMLElement, live: Live): Pane {
  let dialect: Dialect = "c";
  let lines: Token[][] = [];
  let known = new Set<number>();
  let place = "";
  /** The source that assembly stands beside. */
  let of: readonly string[] = [];
  const assembly = () => {
    const sent = assembled.get(`${store.place.run}/${choice.current}`), source = store.run.facts.kernels[choice.current]?.sources[0], own = source?.assembly;
    return sent ?? (own ? { text: own.text, lines: new Map(own.lines), by: own.by, of: source.dialect } : undefined);
  };
  /** What is shown of it. */
  let shown: ReturnType<typeof assembly>;
  /** The line of the source that a line of assembly comes from. */
  const behind = (at: number): number | undefined => (dialect === "asm" ? shown?.lines.get(at + 1) : undefined);
  /** PTX that the kernel sent, by run and kernel. */
  const sent = new Map<string, { text: string; resources: Source["resources"] }>();
  /** Assembly that the kernel sent, by run and kernel: its text, and the line of the source that each line comes from. */
  const assembled = new Map<string, { text: string; lines: ReadonlyMap<number, number>; by: string; of: string }>();
  const facts = h("div");
  const note = div("ll-note");
  const dialects = Object.keys(NAMES) as Dialect[];
  const open = (name: string): void => {
    dialect = dialects.find((one) => NAMES[one] === name)!;
    list.show();
    follow();
  };
  const choice = new KernelChoice(store, (kernel) => {
    list.watch.select({ kind: "kernel", kernel });
    list.show();
  });
  const heads = tabList("language", Object.values(NAMES), open);

  const ask = async (what: string, body: Record<string, unknown>): Promise<void> => {
    const key = `${store.place.run}/${choice.current}`;
    const reply = await asked(live, note, what, { run: store.place.run, ...body });
    if (!reply) return;
    if (what === "assembly") assembled.set(key, { text: String(reply["text"]), lines: new Map(reply["lines"] as [number, number][]), by: String(reply["by"]), of: String(reply["of"]) });
    if (what === "ptx") sent.set(key, { text: String(reply["text"]), resources: reply["resources"] as Source["resources"] });
    place = "";
    list.show();
    follow();
  };
  /** The line that is selected in one language, in the one that is shown now: that which computes most of the same nodes. */
  const follow = (): void => {
    const { selected } = store, sources = store.run.facts.kernels[choice.current]?.sources ?? [];
    const linesOf = (of: string) => sources.find((one) => one.dialect === of)?.lines ?? [];
    if (dialect !== "asm" && selected?.kind === "source" && selected.kernel === choice.current && selected.dialect !== dialect) {
      const own = new Set(linesOf(selected.dialect).find(([line]) => line === selected.line)?.[1]);
      let best = -1, most = 0;
      for (const [line, ids] of linesOf(dialect)) {
        const shared = ids.filter((id) => own.has(id)).length / Math.max(1, new Set([...ids, ...own]).size);
        if (shared > most) [best, most] = [line, shared];
      }
      if (best > 0) list.watch.select({ ...selected, dialect, line: best });
    }
    for (let at = 0; at < lines.length; at++) if (isLit(at)) return list.rows.reveal(at);
  };
  const isLit = (at: number): boolean => {
    const line = dialect === "asm" ? behind(at) : at + 1;
    return line !== undefined && !!store.selected && !!store.related.lines.get(`${choice.current}/${dialect === "asm" ? shown?.of : dialect}`)?.has(line);
  };
  /** What its launches took together, on each device. */
  const took = (): Node | false => {
    const { launches, times } = store.run.facts;
    const own = new Set(launches.flatMap((launch, at) => (launch.kernel === choice.current ? [at] : [])));
    // What runs other source has other times.
    const all = times.flatMap(({ device, how, rows, dialect: runs }, at) => {
      if (runs && runs !== (RUNS[dialect] ?? store.run.facts.kernels[choice.current]?.sources[0]?.dialect)) return [];
      const found = rows.filter((row) => own.has(row.launch)), { share, bound } = found[0] ?? { share: null, bound: null };
      return found.length ? [{ device, how, at, sum: found.reduce((sum, { median }) => sum + median, 0), share: found.length === 1 ? share : null, bound }] : [];
    });
    const most = Math.max(...all.map((one) => one.sum));
    return all.length > 0 && div("ll-took-by", all.map(({ device, how, at, sum, share, bound }) => [
      device,
      s("svg", { role: "img", "aria-label": HOW[how] }, s("rect", { class: tookBy(at, how), x: 1, y: 3, height: 8, width: `${(96 * sum) / most + 0.5}%` })),
      h("strong", null, seconds(sum)),
      h("span", { class: "ll-faint", title: HOW[how] }, share === null ? HOW[how] : `${HOW[how]} · ${ofRoof(share)}${bound ? ` (${bound})` : ""}`),
    ]));
  };
  const draw = (): [number, number] => {
    const kernel = store.run.facts.kernels[choice.current];
    shown = dialect === "asm" ? assembly() : undefined;
    const from = dialect === "asm" ? kernel?.sources[0] : kernel?.sources.find((one) => one.dialect === (dialect === "ptx" ? "cuda" : dialect));
    const ptx = sent.get(`${store.place.run}/${choice.current}`);
    const text = dialect === "asm" ? shown?.text : dialect === "ptx" ? (ptx?.text ?? from?.ptx) : from?.text;
    const key = `${store.place.run} ${choice.current} ${dialect}`;
    heads.mark(NAMES[dialect]);
    if (key !== place) {
      place = key;
      const words = dialect === "ptx" ? "compile to PTX" : dialect === "asm" ? "compile to assembly" : `write the ${NAMES[dialect]}`;
      const need = dialect === "asm" ? "by the compiler that made the kernel" : "no such device is needed";
      fill(facts, took(), values(Object.entries((ptx && (dialect === "cuda" || dialect === "ptx") ? ptx : from)?.resources ?? {}).map(([name, value]) => [name.replaceAll("_", " "), value.toLocaleString("en")])));
      fill(note, kernel ? !text && ["Not in this run: ", button(words, `${words}; ${need}`, () => void ask(dialect === "asm" ? "assembly" : dialect === "ptx" ? "ptx" : "sources", { dialect, kernel: choice.current }))] : NO_KERNELS);
      if (shown && kernel) fill(note, shown.by, shown.lines.size ? "; what a line of the source became lights up with it" : "; it does not say which line of the source each comes from");
      note.hidden = !note.firstChild;
      // Compilers indent by a tab, which leaves no room for the source beside it.
      lines = text ? tokens((dialect === "asm" ? text.replace(/^ {8}/gm, "  ") : text).replace(/\n$/, ""), dialect as Language) : [];
      known = new Set(dialect === "ptx" ? [] : dialect === "asm" ? shown?.lines.keys() : from?.lines.map(([line]) => line));
      of = text && dialect === "asm" && from ? from.text.split("\n") : [];
      list.rows.element.scrollTop = 0;
    }
    return [lines.length, dialect === "asm" ? Math.max(42, widest(lines) + 8) + Math.max(0, ...of.map((line) => line.trim().length + 6)) : widest(lines) + 8];
  };
  const list = listing(store, host, {
    level: "run",
    label: "source",
    height: 18,
    draw: () => {
      if (!place.startsWith(`${store.place.run} `)) {
        choice.draw();
        const sources = store.run.facts.kernels[choice.current]?.sources;
        // A program of XLA's is in no other language, and nothing else is in that.
        const isXLA = sources?.[0]?.dialect === "stablehlo";
        heads.heads.forEach((head, at) => (head.hidden = (dialects[at] === "stablehlo") !== isXLA));
        if (dialect !== "ptx" && dialect !== "asm" && sources?.length && !sources.some((one) => one.dialect === dialect)) dialect = sources[0]!.dialect;
      }
      return draw();
    },
    row: (at) => {
      const line = behind(at), isNew = line !== undefined && line !== behind(at - 1);
      return [span("ll-lineno", at + 1), span(dialect === "asm" ? "ll-asm" : "", drawn(lines[at]!)), isNew && span("ll-faint ll-from", `${line}: ${of[line - 1]?.trim() ?? ""}`)];
    },
    look: (at) => (known.has(at + 1) ? "ll-known" : ""),
    isLit,
    what: (at): Selected | null => {
      if (!known.has(at + 1)) return null;
      return dialect === "asm" ? { kind: "source", kernel: choice.current, dialect: shown!.of, line: behind(at)! } : { kind: "source", kernel: choice.current, dialect, line: at + 1 };
    },
    light: (own) => {
      const before = `${choice.current} ${dialect}`;
      if (own || !store.selected) return;
      choice.follow();
      // Assembly stays where its own source was selected.
      if (store.selected.kind === "source" && !(dialect === "asm" && shown?.of === store.selected.dialect)) dialect = store.selected.dialect as Dialect;
      if (before !== `${choice.current} ${dialect}`) list.show();
    },
  });
  const renew = store.on("bundle", () => (place = ""));
  host.append(div("ll-bar", choice.element, heads.element), facts, note, list.rows.element);
  list.watch.begin();
  return { dispose: () => (renew(), list.dispose()) };
}
