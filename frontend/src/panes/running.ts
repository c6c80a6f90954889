// A compile that runs in the page: a button, then its inputs, its results, and each node's value.

import { button, div, fill, h, link, say } from "../parts/dom";
import { paint, rampOf, scaleOf, sides, strip } from "../parts/heat";
import { eachFrame, type Machine, type Result, type Value } from "../data/machine";
import { knowsGpu } from "../data/gpu";
import { statistics } from "../data/numbers";
import { knob, type Knob } from "./controls";
import { ofPython } from "../graph/overlays";
import type { Pane, Store } from "../data/store";
import { css } from "../parts/styles";
import { bytes } from "../data/units";

css`
/* What changes is laid out by itself: else each frame lays the whole page out. */
.ll-machine { flex: 0 0 300px; min-width: 0; overflow: auto; contain: strict; border-right: 1px solid var(--ll-line); padding: 8px 10px 12px; }
.ll-machine > h2, .ll-machine h2 { font-size: 13px; font-weight: 600; margin: 0 0 6px; }
.ll-machine p { margin: 4px 0; } .ll-machine > div.ll-faint { font-size: 11px; margin: -4px 0 8px; } .ll-ran { height: 16px; contain: strict; }
.ll-go { font-weight: 600; padding: 4px 18px; border-color: var(--ll-accent); background: var(--ll-chosen); }
.ll-withmachine { display: flex; flex: 1 1 0; min-height: 0; min-width: 0; }
.ll-withmachine > .ll-area { min-width: 0; }
.ll-class { display: grid; grid-template-columns: minmax(2ch, max-content) minmax(0, 1fr) 7ch; gap: 8px; align-items: center; font: 12px var(--ll-mono); white-space: pre; height: 16px; contain: strict; }
.ll-class i { display: block; height: 12px; background: var(--ll-edge); border-radius: 2px; min-width: 1px; } .ll-class.ll-most i { background: var(--ll-accent); } .ll-class.ll-most { font-weight: 600; }
/* What may be negative has bars to both sides of a line. */
.ll-signed .ll-class > :nth-child(2) { background: linear-gradient(var(--ll-edge), var(--ll-edge)) no-repeat center / 1px 100%; }
.ll-class > :last-child { text-align: right; }
.ll-resulted { margin: 0 0 10px; } .ll-resulted > h3 { font-size: 12px; font-weight: 600; margin: 0 0 3px; } .ll-large { font: 600 20px var(--ll-mono); }
.ll-nodes { position: relative; border-top: 1px solid var(--ll-line); margin-top: 4px; font: 11px var(--ll-mono); }
.ll-noderow { display: grid; grid-template-columns: minmax(0, 1fr) 15ch 62px; gap: 6px; align-items: center; height: 22px; contain: strict; }
/* Each row is a picture of its own to the browser, and each frame puts all of them together that can be seen. */
.ll-noderow:not([data-near]) { visibility: hidden; }
.ll-noderow > :nth-child(2) { text-align: right; }
/* One picture of the numbers of all rows in sight, and not one for each. */
.ll-strips { position: absolute; right: 0; width: 62px; pointer-events: none; image-rendering: pixelated; }
.ll-noderow > .ll-link { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; font: inherit; text-decoration: none; }
.ll-noderow[data-chosen] { background: var(--ll-chosen); }
.ll-image { width: 100%; max-height: 180px; image-rendering: pixelated; border: 1px solid var(--ll-line); }
/* It fills a page of its own: what is around it is no container. */
@media (max-width: 760px) { .ll-withmachine { flex-direction: column; } .ll-machine { flex: 0 1 46%; border-right: 0; border-bottom: 1px solid var(--ll-line); } }
`;

/** Up to so many rows of nodes are made. */
const MOST = 400;
/** A row is so high, and its strip of colours so wide and high. */
const ROW = 22, STRIP = 62, THICK = 14;
/** Rows are made visible so far beyond the view: Tab reaches them, and scrolls. */
const AROUND = 6;
/** After so many milliseconds without a change the picture gets its colours anew. */
const CALM = 80;
const TITLE = "size of values now";

export function machinePane(store: Store, host: HTMLElement, machine: Machine): Pane {
  const note = div("ll-faint"), body = h("div");
  for (const [name, value] of Object.entries({ class: "ll-machine", role: "complementary", "aria-label": "Run it here" })) host.setAttribute(name, value);
  // So that a reader's console has its values, too.
  Object.assign(host, { machine });
  const stops: (() => void)[] = [];
  const [wasm, weights] = machine.sizes;
  const go = button("Run", "Run it in this page", () => {
    go.disabled = true;
    machine.start().then(begin, failed);
  }, { class: "ll-button ll-go" });
  const failed = (error: Error): void => {
    note.classList.remove("ll-ran");
    fill(note, h("p", { class: "ll-sorry", role: "alert" }, error.message));
    go.disabled = false;
  };
  fill(
    host,
    h("h2", null, "Run it here"),
    note,
    body,
  );
  fill(body, go, h("p", { class: "ll-faint" }, `${bytes(wasm)} of WebAssembly${weights ? ` and ${bytes(weights)} of weights` : ""} are in this page. Nothing runs before you press, and nothing is ever sent.`));
  const begin = (): void => {
    const knobs = machine.inputs.map((_, at) => knob(machine, at));
    const results = machine.results.map((result) => resulted(store, machine, result, knobs));
    const choice = knowsGpu() ? gpuSwitch(machine) : null;
    const nodes = nodeRows(store, machine, host), colours = h("input", { type: "checkbox", checked: true, onchange: () => colour() });
    let calm: ReturnType<typeof setTimeout> | undefined;
    // Inputs that are wrong are told, whoever asks for a value first.
    const tried = (what: () => void) => (): void => {
      try {
        what();
      } catch (error) {
        failed(error as Error);
      }
    };
    const colour = tried(() => {
      if (!colours.checked) return void (store.overlay?.name === TITLE && store.setOverlay(null));
      if (store.overlay && store.overlay.name !== TITLE) return;
      const values: Record<string, number> = {}, texts: Record<string, string> = {}, { run, place } = store;
      const ids = Array.from(run.lines(place.stage), (row) => run.id[row]!);
      machine.need(ids);
      for (const id of ids) {
        const value = machine.value(id);
        if (!value?.numbers.length) continue;
        values[id] = typical(value.numbers);
        texts[id] = value.numbers.length > 1 ? `≈ ${brief(values[id]!)}` : brief(value.numbers[0]!);
      }
      store.setOverlay(ofPython(run, { title: TITLE, values, texts }));
    });
    const draw = tried(() => {
      clearTimeout(calm);
      const { isByGpu } = machine;
      if (!isByGpu) machine.spent = 0;
      const began = performance.now();
      for (const one of [nodes, ...knobs, ...results]) one.draw(); // what measures comes first
      const drawn = performance.now() - began - (isByGpu ? 0 : machine.spent);
      note.classList.add("ll-ran");
      say(note, `computed ${isByGpu ? "by WebGPU " : ""}in ${milliseconds(machine.spent)}, drawn in ${milliseconds(drawn)}`);
      choice?.draw();
      calm = setTimeout(colour, CALM);
    });
    const drawRows = tried(() => nodes.draw());
    host.addEventListener("scroll", () => requestAnimationFrame(drawRows));
    stops.push(eachFrame(machine, draw), store.on("place", draw), store.on("selection", drawRows), store.on("bundle", draw), () => clearTimeout(calm));
    fill(
      body,
      knobs.length ? knobs.map(({ element }) => element) : h("p", { class: "ll-faint" }, "It has no inputs."),
      results.map(({ element }) => element),
      h("label", null, colours, " colour the graph by its values"),
      choice?.element,
      nodes.element,
    );
    draw();
    colour();
    (host.querySelector<HTMLElement>("input, canvas") ?? host).focus({ preventScroll: true });
  };
  // A pane that was laid out anew goes on.
  if (machine.isRunning) begin();
  return { dispose: () => stops.forEach((stop) => stop()) };
}

/** The switch to WebGPU and back, which says why it is off. */
function gpuSwitch(machine: Machine): Part {
  const said = h("p", { class: "ll-faint", role: "status" });
  const box = h("input", {
    type: "checkbox", onchange: () => {
      box.disabled = true;
      const done = (): void => {
        box.disabled = false;
        draw();
      };
      machine.switched(box.checked).then(done, (error: Error) => {
        machine.failure = error.message;
        done();
      });
    },
  });
  const draw = (): void => {
    if (!box.disabled) box.checked = machine.isByGpu;
    say(said, machine.why ? `Not by WebGPU: ${machine.why}` : machine.failure && `WebGPU stays off: ${machine.failure}`);
  };
  return { element: h("div", null, !machine.why && h("label", null, box, " run by WebGPU"), said), draw };
}

function milliseconds(value: number): string {
  return value < 0.05 ? "< 0.1 ms" : `${value.toFixed(1)} ms`;
}

function brief(value: number, digits = 3): string {
  const size = Math.abs(value);
  return size !== 0 && Number.isFinite(value) && (size >= 1e5 || size < 1e-3) ? value.toExponential(digits > 2 ? 1 : 0) : String(Number(value.toPrecision(digits)));
}

/** The root of the mean square of some of the numbers. */
function typical(numbers: ArrayLike<number>): number {
  const step = Math.max(1, Math.ceil(numbers.length / 1024));
  let total = 0, many = 0;
  for (let at = 0; at < numbers.length; at += step) {
    if (!Number.isFinite(numbers[at]!)) continue;
    total += numbers[at]! ** 2;
    many++;
  }
  return many ? Math.sqrt(total / many) : 0;
}

interface Part {
  readonly element: HTMLElement;
  draw(): void;
}

/** What a result without a name is called: its node, and what that is. */
function titleOf({ bundle }: Store, id: number): string {
  const run = bundle.runs[0]!, row = run.alive(run.stages.length - 1).row(id);
  return row < 0 ? `%${id}` : `%${run.name(row)} ${run.label(row)}`;
}

/** So many classes have a bar each; of more, the largest ones. */
const CLASSES = 16, LARGEST = 8;

/** A result: one number, bars of classes, or a picture. */
function resulted(store: Store, machine: Machine, result: Result, knobs: readonly Knob[]): Part {
  const host = h("div"), text = knobs.find(({ field }) => field);
  const typedWords = machine.inputs.find(({ control }) => control.kind === "text")?.control.words ?? null;
  const title = result.name || titleOf(store, result.id), element = div("ll-resulted", h("h3", null, title), host);
  let bars: HTMLElement[] = [], isSigned = false, image: HTMLCanvasElement | null = null, more: HTMLButtonElement | null = null, next = "";
  const line = (value: Value): string => String(statistics(value.dtype, value.shape, value.numbers)["text"]);
  const draw = (): void => {
    const value = machine.value(result.id);
    if (!value) return void fill(host, h("p", { class: "ll-faint" }, "This page does not keep it."));
    const { numbers, shape } = value, many = numbers.length, isRow = (shape.at(-1) ?? 1) === many;
    if (many === 1) return void fill(host, div("ll-large", brief(numbers[0]!)));
    const words = result.words ?? (typedWords?.length === many ? typedWords : null);
    if (isRow && (many <= CLASSES || words)) {
      const order = Array.from({ length: many }, (_, at) => at);
      if (many > CLASSES) order.sort((a, b) => numbers[b]! - numbers[a]!).splice(LARGEST);
      const top = scaleOf(numbers), best = order.reduce((one, at) => (numbers[at]! > numbers[one]! ? at : one), order[0]!);
      if (bars.length !== order.length) {
        bars = order.map(() => div("ll-class", h("span"), h("span", null, h("i")), h("span")));
        next = "";
        more = text && words === typedWords && words ? button("go on", "Put the likeliest token behind the text", () => {
          text.field!.value += next;
          text.field!.dispatchEvent(new Event("input"));
        }) : null;
        fill(host, bars, more);
      }
      next = words?.[best] ?? "";
      // What was negative once may be so again: the line stays, whatever the numbers are now.
      isSigned ||= order.some((at) => numbers[at]! < 0);
      host.classList.toggle("ll-signed", isSigned);
      order.forEach((at, row) => {
        const [label, track, number] = bars[row]!.children as unknown as HTMLElement[], bar = track!.firstChild as HTMLElement;
        const long = (100 * Math.abs(numbers[at]!)) / top / (isSigned ? 2 : 1);
        bars[row]!.classList.toggle("ll-most", at === best && (!isSigned || !!words));
        say(label!, words ? (words[at] ?? "").replace(/\n/g, "↵").replace(/^ $/, "␣") : String(at));
        bar.style.width = `${long}%`;
        bar.style.marginLeft = `${!isSigned ? 0 : numbers[at]! < 0 ? 50 - long : 50}%`;
        say(number!, brief(numbers[at]!));
      });
      return;
    }
    if (!image) fill(host, (image = h("canvas", { class: "ll-image", role: "img", "aria-label": `The numbers of ${title}` })), h("p", { class: "ll-faint" }));
    paint(image, numbers, sides(shape), rampOf(image), scaleOf(numbers));
    say(image.nextElementSibling!, line(value));
  };
  return { element, draw };
}

/** A row for each node of the graph in sight; those out of sight are not drawn, and nothing is computed for them. */
function nodeRows(store: Store, machine: Machine, view: HTMLElement): Part {
  const list = div("ll-nodes"), element = h("div", null, h("h2", null, "Every value"), list);
  const strips = h("canvas", { class: "ll-strips", width: STRIP, height: 1 });
  let rows: { id: number; row: HTMLElement; stats: HTMLElement }[] = [], shown = new Set<HTMLElement>(), laid = "";
  const lay = (): void => {
    const { run, place } = store, key = `${place.run} ${place.stage} ${store.bundle.runs.length}`;
    if (key === laid) return;
    laid = key;
    const known = Array.from(run.lines(place.stage)).filter((row) => machine.has(run.id[row]!));
    rows = known.slice(0, MOST).map((at) => {
      const id = run.id[at]!, stats = h("span");
      const name = link([`%${run.name(at)} `, h("span", { class: "ll-faint" }, run.label(at))], () => store.select({ kind: "node", stage: store.place.stage, ids: [id] }), { title: run.text(at) });
      return { id, row: div("ll-noderow", name, stats), stats };
    });
    fill(list, strips, rows.map(({ row }) => row), known.length > MOST && h("p", { class: "ll-faint" }, `and ${known.length - MOST} more: select one in the graph`));
  };
  const draw = (): void => {
    lay();
    const { top, bottom } = view.getBoundingClientRect(), begin = list.getBoundingClientRect().top, high = ROW;
    const first = Math.max(0, Math.floor((top - begin) / high)), last = Math.ceil((bottom - begin) / high);
    const near = new Set(rows.slice(Math.max(0, first - AROUND), Math.max(0, last + AROUND)).map(({ row }) => row));
    for (const row of shown) if (!near.has(row)) row.removeAttribute("data-near");
    for (const row of near) if (!shown.has(row)) row.setAttribute("data-near", "");
    shown = near;
    const seen = rows.slice(first, Math.max(first, last)), ramp = rampOf(list), { selected } = store;
    machine.need(seen.map(({ id }) => id));
    const image = seen.length ? new ImageData(STRIP, ROW * seen.length) : null;
    seen.forEach(({ id, row, stats }, at) => {
      const { numbers } = machine.value(id)!, step = Math.max(1, Math.ceil(numbers.length / 4096));
      let low = Infinity, high = -Infinity;
      for (let at = 0; at < numbers.length; at += step) {
        const value = numbers[at]!;
        if (value < low) low = value;
        if (value > high) high = value;
      }
      say(stats, low === high ? brief(low) : `${brief(low, 2)} … ${brief(high, 2)}`);
      strip(image!, ROW * at + (ROW - THICK) / 2, THICK, numbers, ramp, scaleOf(numbers, step));
      row.toggleAttribute("data-chosen", selected?.kind === "node" && selected.ids.includes(id));
    });
    if (!image) return;
    if (strips.height !== image.height) strips.height = image.height;
    strips.style.top = `${ROW * first}px`;
    strips.getContext("2d")?.putImageData(image, 0, 0);
  };
  return { element, draw };
}
