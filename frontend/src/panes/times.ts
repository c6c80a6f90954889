// The time of each launch on the devices side by side, and where the launches stand under the roofline.
//
// What was measured is full, what was recorded elsewhere is hatched, what was modelled is an outline.

import { button, div, fill, h, s, set, span, type Child } from "../parts/dom";
import { Labels } from "../parts/labels";
import { listing, type Listing } from "../parts/listing";
import type { Time, Times } from "../data/model";
import { launchName } from "../data/named";
import { lane, laneKey } from "./lanes";
import { HOW, tookBy } from "./took";
import type { Pane, Store } from "../data/store";
import { css } from "../parts/styles";
import { chosen, choose } from "../parts/choices";
import { folded, FOLDS, type Fold, type Folded } from "../data/folds";
import { bytes, digits, many, ofRoof, seconds } from "../data/units";

css`
.ll-launch { display: grid; grid-template-columns: 13ch 1fr 27ch; column-gap: 8px; width: 100%; font-size: 11.5px; line-height: 17px; }
.ll-launch.ll-table { grid-template-columns: minmax(12ch, 20ch) repeat(var(--ll-devices), minmax(0, 1fr)); align-items: center; }
.ll-launch.ll-table.ll-by-line { grid-template-columns: minmax(12ch, 2fr) repeat(var(--ll-devices), minmax(0, 1fr)); }
.ll-launch.ll-table > b { grid-column: auto; overflow: hidden; text-overflow: ellipsis; font-weight: 400; }
.ll-launch.ll-table > div { display: grid; grid-template-columns: minmax(14px, 1fr) minmax(0, 17ch); column-gap: 6px; align-items: center; min-width: 0; } .ll-launch.ll-table span { overflow: hidden; text-overflow: ellipsis; }
.ll-launch.ll-table svg { width: 100%; height: 13px; }
.ll-launch > b { grid-column: 1 / -1; } .ll-launch > svg { width: 100%; height: 17px; } .ll-launch > span { overflow: hidden; text-overflow: ellipsis; }
.ll-totals { display: grid; grid-template-columns: auto auto auto minmax(0, 1fr); align-items: center; gap: 1px 12px; padding: 6px 8px; flex: 0 1 auto; overflow-y: auto; } .ll-totals > details { min-width: 0; }
.ll-doubts { grid-column: 1 / -1; border-left: 3px solid var(--ll-high); padding: 1px 8px; } .ll-doubts > div { overflow-wrap: anywhere; }
.ll-spread { stroke: var(--ll-text); stroke-width: 1.5; fill: none; }
.ll-roof { stroke: var(--ll-mine, var(--ll-accent)); stroke-width: 1.8; fill: none; }
.ll-plot { flex: none; width: 100%; max-height: max(42%, 190px); border-top: 1px solid var(--ll-line); font-size: 11px; }
.ll-no-roof { flex: none; padding: 0 8px 4px; font-size: 11px; }
.ll-totals ~ .ll-rows { min-height: 66px; }
.ll-plot-alone > .ll-totals, .ll-plot-alone > .ll-rows, .ll-plot-alone > .ll-lane-key { display: none; } .ll-plot-alone .ll-plot { flex: 1 1 0; min-height: 0; max-height: none; border-top: 0; }
.ll-plot text { fill: var(--ll-faint); } .ll-axis { stroke: var(--ll-line); fill: none; }
.ll-plot .ll-took { cursor: pointer; } .ll-plot .ll-lit { stroke: var(--ll-high); stroke-width: 3; }
`;

/** A column for each device takes so many pixels at least, beside the names. */
const COLUMN = 150, NAMES = 130;
/** From so many pixels on there is room for the roofline under the list. */
const TALL = 420;

interface Line {
  readonly launch: number;
  /** By device. */
  readonly of: readonly (Time | undefined)[];
}

/** Lines of all launches that have a time; the slowest of the first device that timed it first, if asked. */
export function timed(times: readonly Times[], isSlowestFirst: boolean): Line[] {
  const launches = new Set(times.flatMap((device) => device.rows.map((row) => row.launch)));
  const found = [...launches].map((launch) => ({ launch, of: times.map((device) => device.rows.find((row) => row.launch === launch)) }));
  const first = (line: Line): number => line.of.find((one) => one)!.median;
  return found.sort((one, other) => (isSlowestFirst ? first(other) - first(one) : one.launch - other.launch));
}

export function times(store: Store, host: HTMLElement): Pane {
  let lines: Line[] = [];
  let most = 1;
  let isSlowestFirst = true;
  let fold = chosen("fold", "launch") as Fold;
  let parts: Folded[] = [];
  if (!(fold in FOLDS)) fold = "launch";
  const folds = h("select", { class: "ll-select", "aria-label": "what has a row", onchange: () => {
    fold = folds.value as Fold;
    choose("fold", fold);
    list.show();
  } }, Object.entries(FOLDS).map(([name, words]) => h("option", { value: name, selected: name === fold }, words)));
  let isPlotted = host.clientHeight === 0 || host.clientHeight > TALL;
  let list: Listing;
  const sort = button("slowest first", "slowest first, or in the order of the program", () => {
    isSlowestFirst = !isSlowestFirst;
    list.show();
  });
  // The list comes first where there is little room, and the button then takes its place.
  const plotted = button("roofline", "the launches under the roofline, or not", () => {
    isPlotted = !isPlotted;
    list.show();
  });
  const totals = div("ll-totals"), meaning = h("div");
  const plot = h("div", { style: "display:contents" });
  const isLit = (launch: number): boolean => !!store.selected && store.related.launches.has(launch);

  /** Operations a second over operations a byte, both by powers of ten. */
  const roofline = (): Node | null => {
    const { times: all, roofline: roofs } = store.run.facts;
    const points = all.flatMap(({ device, how, rows }, at) => rows.flatMap(({ flops, bytes, median, launch }) => (flops && bytes && median > 0 ? [{ device, at, how, launch, x: Math.log10(flops / bytes), y: Math.log10(flops / median) }] : [])));
    if (!points.length) return null;
    // Two names of one device have one roof.
    const peaks = [...new Map(roofs.map((one) => [`${one.flops} ${one.bytes}`, { ...one, y: Math.log10(one.flops), x: Math.log10(one.flops / one.bytes) }])).values()];
    // As wide as it is drawn, where that is narrow, so that letters keep their size.
    const [wide, high, left, bottom] = [Math.max(300, Math.min(520, host.clientWidth || 520)), 230, 46, 200];
    const range = (of: "x" | "y"): number[] => {
      const values = [...points, ...peaks].map((one) => one[of]);
      const from = Math.floor(Math.min(...values) - 0.2);
      return Array.from({ length: Math.ceil(Math.max(...values) + 0.3) - from + 1 }, (_, at) => from + at);
    };
    const [xs, ys] = [range("x"), range("y")];
    const x = (value: number): number => left + ((value - xs[0]!) / (xs.length - 1)) * (wide - left - 10);
    const y = (value: number): number => bottom - ((value - ys[0]!) / (ys.length - 1)) * (bottom - 12);
    const power = (tick: number): string => (tick < 3 ? `${10 ** tick}` : `${10 ** (tick % 3)} ${" kMGTPEZ"[Math.floor(tick / 3)]}`);
    const text = (x: number, y: number, anchor: string, words: string): Node => s("text", { x, y, "text-anchor": anchor }, words);
    const every = 1 + Math.floor(ys.length / 9);
    const names = new Labels(11, { left, top: 0, right: wide - 8, bottom });
    // Where the roofs are: names stand beside these lines, not on them.
    const lines = peaks.map((one) => {
      const from = Math.max(xs[0]!, one.x - one.y + ys[0]!);
      return { ...one, from: [x(from), y(one.y + from - one.x)] as const, ridge: [x(one.x), y(one.y)] as const };
    });
    for (const { from: [left, low], ridge: [right, high] } of lines) {
      names.take({ left: right, top: high, right: wide - 10, bottom: high + 0.5 });
      for (let at = left; at < right; at += 6) {
        const of = (place: number): number => low + ((high - low) * (place - left)) / (right - left);
        names.take({ left: at, top: of(Math.min(right, at + 6)), right: Math.min(right, at + 6), bottom: of(at) });
      }
    }
    const spots = points.map((one) => ({ x: x(one.x), y: y(one.y) }));
    for (const spot of spots) names.take({ left: spot.x - 7, top: spot.y - 7, right: spot.x + 7, bottom: spot.y + 7 });
    return s(
      "svg",
      { class: "ll-plot", viewBox: `0 0 ${wide} ${high}`, role: "img", "aria-label": "roofline; the list above has the same numbers" },
      xs.map((tick) => [s("path", { class: "ll-axis", d: `M${x(tick)} 12V${bottom}` }), text(x(tick), bottom + 14, tick === xs.at(-1) ? "end" : "middle", power(tick))]),
      ys.map((tick, at) => [s("path", { class: "ll-axis", d: `M${left} ${y(tick)}H${wide - 10}` }), at > 0 && at % every === 0 && text(left - 4, y(tick) + 3, "end", power(tick))]),
      text(wide - 10, high - 4, "end", "operations per byte"),
      text(2, high - 4, "start", "↑ operations per second"),
      lines.map((one) => {
        const words = `${one.device}: ${many(one.flops)}/s, ${bytes(one.bytes)}/s`, [ridge, roof] = one.ridge;
        // At the end of the roof, or in its middle, or before it; where all is taken, the device alone.
        const ends = [wide - 12, (ridge + wide) / 2, ridge, ridge - 40];
        const name = [words, one.device].flatMap((text) => ends.map((end) => [end, text] as const)).reduce<Node | null>((found, [end, text]) => found ?? names.beside(end, roof, text, ["above", "below"], 3), null);
        return [s("path", { class: `ll-roof ll-device-${Math.max(0, all.findIndex(({ device }) => device === one.device)) % 5}`, d: `M${ridge} ${roof}H${wide - 10}M${ridge} ${roof}L${one.from.join(" ")}` }), name];
      }),
      points.map((one) => {
        const [px, py] = [x(one.x), y(one.y)];
        const shape = { measured: "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0z", recorded: "M-5-5h10v10h-10z", modelled: "M0-6l6 10h-12z" }[one.how];
        const name = names.beside(px, py, launchName(store.run, one.launch).replace(/^\d+: /, ""), ["right", "left", "above", "below"]);
        return [name, s("path", { class: tookBy(one.at, one.how), d: shape, transform: `translate(${px} ${py})`, "data-launch": one.launch, onclick: () => list.watch.select({ kind: "launch", launch: one.launch }) }, s("title", null, `${launchName(store.run, one.launch)}, ${one.device}: ${digits(10 ** one.x)} operations a byte, ${many(10 ** one.y)} operations a second, ${HOW[one.how]}`))];
      }),
    );
  };
  /** A launch on a device: a bar of its time, and the time in words. */
  const cell = (time: Time | undefined, device: number, isTable: boolean): Child[] => {
    const { device: name, how } = store.run.facts.times[device]!;
    const part = (value: number): string => `${((98 * value) / most + 0.5).toFixed(2)}%`;
    const bar = s("svg", { role: "img", "aria-label": HOW[how] }, time && [s("rect", { class: tookBy(device, how), x: "0.5%", y: isTable ? 2 : 4, height: 9, width: part(time.median) }), time.high > time.low && s("line", { class: "ll-spread", x1: part(time.low), x2: part(time.high), y1: isTable ? 6.5 : 8.5, y2: isTable ? 6.5 : 8.5 })]);
    if (!time) return [!isTable && h("span", { title: name }, name), bar, span("ll-faint", "no time")];
    const share = time.share !== null && ` · ${ofRoof(time.share)}`;
    const whole = `${name}, ${HOW[how]}: ${seconds(time.low)} to ${seconds(time.high)}; ${bytes(time.bytes)}, ${many(time.flops)} operations`;
    return [!isTable && h("span", { title: name }, name), bar, h("span", { title: whole }, seconds(time.median), share, !isTable && time.bound && ` (${time.bound})`)];
  };
  /** What a part of the whole takes on a device. */
  const share = (value: number | null, device: number, isTable: boolean): Child[] => {
    const { device: name, how, rows } = store.run.facts.times[device]!;
    const total = rows.reduce((sum, { median }) => sum + median, 0) || 1;
    const bar = s("svg", { role: "img", "aria-label": HOW[how] }, value !== null && s("rect", { class: tookBy(device, how), x: "0.5%", y: isTable ? 2 : 4, height: 9, width: `${((98 * value) / total + 0.5).toFixed(2)}%` }));
    return [!isTable && h("span", { title: name }, name), bar, value === null ? span("ll-faint", "no time") : h("span", null, `${seconds(value)} · ${Math.round((100 * value) / total)} %`)];
  };
  const show = (): void => {
    const { times } = store.run.facts;
    const isTable = host.clientWidth >= NAMES + COLUMN * times.length;
    list?.dispose();
    list?.rows.element.remove();
    list = listing(store, host, {
      level: "run",
      label: "times of launches",
      class: "",
      height: isTable ? 20 : 22 + 17 * times.length,
      row: (at) => {
        const part = parts[at], line = lines[at];
        const cells = part ? part.seconds.map((value, device) => share(value, device, isTable)) : line!.of.map((time, device) => cell(time, device, isTable));
        const name = part ? part.name : launchName(store.run, line!.launch);
        return isTable
          ? h("div", { class: `ll-launch ll-table${fold === "line" ? " ll-by-line" : ""}`, style: `--ll-devices:${times.length}` }, h("b", { title: name }, name), cells.map((one) => div("", one)))
          : div("ll-launch", h("b", null, name), cells);
      },
      isLit: (at) => (parts[at] ? parts[at]!.launches.some(isLit) : isLit(lines[at]!.launch)),
      what: (at) => {
        const part = parts[at];
        if (!part) return { kind: "launch", launch: lines[at]!.launch };
        if (part.origin !== null) return { kind: "line", origin: part.origin };
        if (fold === "scope" && part.name !== "(no scope)") return { kind: "scope", stage: 0, path: part.name };
        return { kind: "launch", launch: part.launches[0]! };
      },
      draw: () => {
        const { times: now } = store.run.facts;
        // Rows are as high as there are devices.
        if (now !== times) return queueMicrotask(show), [0];
        lines = timed(times, isSlowestFirst);
        most = Math.max(1e-12, ...times.flatMap((device) => device.rows.flatMap((one) => [one.median, one.high])));
        parts = fold === "launch" ? [] : folded(store.run, fold);
        sort.hidden = !times.length || fold !== "launch";
        folds.hidden = !times.length;
        sort.setAttribute("aria-pressed", String(isSlowestFirst));
        fill(
          totals,
          times.map(({ device, how, rows, clock, note, doubts }, at) => [
            h("span", null, s("svg", { width: 28, height: 11 }, s("rect", { class: tookBy(at, how), x: 1, y: 1, width: 22, height: 9 })), device),
            h("strong", null, seconds(rows.reduce((sum, time) => sum + time.median, 0))),
            note || clock ? h("details", null, h("summary", null, HOW[how]), [clock, note].filter(Boolean).join("; ")) : h("span", null, HOW[how]),
            lane(store.run, times[at]!, at, (launch) => list.watch.select({ kind: "launch", launch })),
            !!doubts?.length && div("ll-doubts", doubts.map((one) => h("div", null, `⚠ ${one}`))),
          ]),
          !times.length && "There are no times here: Time it, under re-run, measures this run. In Python: cx.workbench(cx.time()), or cx.workbench(ll.compare(cx, …)).",
        );
        totals.classList.toggle("ll-note", !times.length);
        fill(meaning, laneKey(times));
        const roofless = times.filter(({ device }) => !store.run.facts.roofline.some((roof) => roof.device === device)).map(({ device }) => device);
        fill(plot, isPlotted && roofline(), isPlotted && !!roofless.length && div("ll-faint ll-no-roof", `no roof for ${roofless.join(", ")}: the rates are not known`));
        plotted.hidden = !times.length;
        set(plotted, { "aria-pressed": String(isPlotted) });
        // In a low pane one of the two has all the room, so that neither is cut off.
        host.classList.toggle("ll-plot-alone", isPlotted && !!times.length && host.clientHeight > 0 && host.clientHeight <= TALL);
        return [fold === "launch" ? lines.length : parts.length];
      },
      light: () => {
        for (const point of host.querySelectorAll("[data-launch]")) point.classList.toggle("ll-lit", isLit(Number(point.getAttribute("data-launch"))));
      },
    });
    plot.before(list.rows.element);
    list.watch.begin();
  };
  const hatch = s("pattern", { id: "ll-hatch", width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, s("path", { class: "ll-took", d: "M1 0V5" }));
  host.append(s("svg", { width: 0, height: 0, style: "position:absolute", "aria-hidden": "true" }, hatch), div("ll-bar", folds, sort, plotted), totals, meaning, plot);
  show();
  return { dispose: () => list.dispose() };
}
