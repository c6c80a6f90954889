// What changes an input of a compile that runs in the page: sliders, a pad to draw on, a field for text.

import { button, div, fill, h, say } from "../parts/dom";
import { paint, rampOf, sides } from "../parts/heat";
import { keyed } from "../parts/keys";
import { sizeOf, type Machine } from "../data/machine";
import { tokensOf } from "../data/tokens";
import { css } from "../parts/styles";

css`
.ll-ranged { display: grid; grid-template-columns: minmax(3em, max-content) minmax(0, 1fr) minmax(6ch, max-content); gap: 8px; align-items: center; margin: 2px 0; }
.ll-ranged > input { width: 100%; margin: 0; accent-color: var(--ll-accent); }
.ll-ranged > output { font: 11px var(--ll-mono); text-align: right; }
.ll-pad { display: block; width: 100%; max-width: 224px; image-rendering: pixelated; border: 1px solid var(--ll-edge); border-radius: 4px; cursor: crosshair; touch-action: none; }
.ll-heated { display: block; width: 100%; min-height: 14px; max-height: 120px; image-rendering: pixelated; border: 1px solid var(--ll-line); cursor: pointer; }
.ll-typed { width: 100%; font-family: var(--ll-mono); }
.ll-knob { margin: 0 0 10px; } .ll-knob > h3 { font-size: 12px; font-weight: 600; margin: 0 0 3px; display: flex; gap: 6px; align-items: baseline; } .ll-knob > h3 > .ll-faint { flex: 1 1 0; font-weight: 400; }
.ll-knob .ll-button { min-height: 20px; padding: 0 6px; font-size: 11px; }
`;

const BATCH = "It shows the whole batch; one row, set before the export, gives a pad to draw on.";
/** Up to so many numbers each have a slider. */
const FEW = 12;

/** A control of one input, and what shows what the input is now. */
export interface Knob {
  readonly element: HTMLElement;
  draw(): void;
  /** What is typed, if it is a field for text. */
  readonly field?: HTMLInputElement;
}

export function knob(machine: Machine, at: number): Knob {
  const { name, shape, control, first } = machine.inputs[at]!, many = sizeOf(shape);
  const put = button("as it was", `Make ${name} what it was at first`, () => machine.set(at, 0, first));
  const make = control.kind === "text" ? typed : control.kind === "pad" ? pad : many <= FEW ? sliders : cells;
  const { parts, more = [], draw, field } = make(machine, at);
  const element = div("ll-knob", h("h3", null, name, h("span", { class: "ll-faint" }, many > 1 ? shape.join(" × ") : ""), more, put), control.rows > 1 && h("p", { class: "ll-faint" }, BATCH), parts);
  return { element, draw, ...(field ? { field } : {}) };
}

interface Made {
  readonly parts: HTMLElement[];
  readonly more?: HTMLElement[];
  readonly field?: HTMLInputElement;
  draw(): void;
}

/** A step for bounds: 1, 2 or 5 times a power of ten, near a thousandth of them. */
export function stepOf(low: number, high: number): number {
  const wish = Math.log10((high - low) / 1000), ten = Math.floor(wish);
  const near = [0, Math.log10(2), Math.log10(5), 1].reduce((one, other) => (Math.abs(other - (wish - ten)) < Math.abs(one - (wish - ten)) ? other : one));
  return Number(`${Math.round(10 ** near)}e${ten}`);
}

/** A number with all digits that a float32 has. */
function exact(value: number): string {
  return String(Number(value.toPrecision(7)));
}

/** A slider for a number of an input, which may be another one in time. */
function slider(machine: Machine, at: number, place: () => number, label: string): { element: HTMLElement; draw(): void } {
  const { name, dtype, control } = machine.inputs[at]!, { low, high, words } = control, { first } = machine.inputs[at]!;
  const step = dtype.includes("float") && !words ? stepOf(low, high) : 1, output = h("output");
  // So that the sliders of an input are as long as each other, wherever they stand.
  if (!words) output.style.minWidth = `${Math.max(...[low, high, ...Array.from(first).slice(0, FEW)].map((value) => exact(value).length))}ch`;
  const range = h("input", {
    type: "range", min: low, max: high, step, "aria-label": label ? `${name} ${label}` : name,
    oninput: () => machine.set(at, place(), [Number(range.value)]),
  });
  const draw = (): void => {
    const value = machine.input(at).numbers[place()]!;
    if (document.activeElement !== range || Number(range.value) !== value) range.value = String(value);
    say(output, words?.[value] ?? exact(value));
  };
  return { element: h("label", { class: "ll-ranged" }, h("span", { class: "ll-faint" }, label), range, output), draw };
}

function sliders(machine: Machine, at: number): Made {
  const many = sizeOf(machine.inputs[at]!.shape);
  const all = Array.from({ length: many }, (_, k) => slider(machine, at, () => k, many > 1 ? `[${k}]` : ""));
  return { parts: all.map(({ element }) => element), draw: () => all.forEach(({ draw }) => draw()) };
}

/** All numbers as colours; the one that was clicked has a slider. */
function cells(machine: Machine, at: number): Made {
  const { name, shape } = machine.inputs[at]!, [rows, columns] = sides(shape);
  let chosen = 0;
  const label = h("span", { class: "ll-faint" });
  const own = slider(machine, at, () => chosen, "chosen");
  const choose = (to: number): void => {
    chosen = Math.max(0, Math.min(rows * columns - 1, to));
    draw();
  };
  const canvas = h("canvas", {
    class: "ll-heated", tabindex: 0, role: "img", "aria-label": `The numbers of ${name}; arrow keys choose the one that the slider changes`,
    onpointerdown: (event: PointerEvent) => {
      const box = canvas.getBoundingClientRect();
      const part = (to: number, from: number, size: number, many: number): number => Math.max(0, Math.min(many - 1, Math.floor(((to - from) / size) * many)));
      choose(part(event.clientY, box.top, box.height, rows) * columns + part(event.clientX, box.left, box.width, columns));
    },
  });
  keyed(canvas, ({ key }) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[key];
    if (step) choose(chosen + step);
    return !!step;
  });
  const draw = (): void => {
    paint(canvas, machine.input(at).numbers, [rows, columns], rampOf(canvas), Math.max(Math.abs(machine.inputs[at]!.control.low), Math.abs(machine.inputs[at]!.control.high)) || 1);
    say(label, `[${rows > 1 ? `${Math.floor(chosen / columns)}, ` : ""}${chosen % columns}]`);
    own.draw();
  };
  fill(own.element.firstElementChild!, label);
  return { parts: [canvas, own.element], draw };
}

/** Paint with a brush; arrow keys move it, and space paints. */
function pad(machine: Machine, at: number): Made {
  const { name, shape, control } = machine.inputs[at]!;
  const [rows, columns] = shape.filter((size) => size !== 1) as [number, number];
  const brush = Math.max(0.6, Math.min(rows, columns) / 22), { low, high } = control;
  let last: readonly [number, number] | null = null, spot: readonly [number, number] = [rows / 2, columns / 2];
  const dab = (y: number, x: number, numbers: Float64Array, isRubber: boolean): void => {
    for (let row = Math.floor(y - 3 * brush); row <= y + 3 * brush; row++)
      for (let column = Math.floor(x - 3 * brush); column <= x + 3 * brush; column++) {
        if (row < 0 || column < 0 || row >= rows || column >= columns) continue;
        const far = Math.hypot(row + 0.5 - y, column + 0.5 - x), share = Math.max(0, Math.min(1, 1.4 - far / (1.5 * brush)));
        const place = row * columns + column, to = isRubber ? low : high;
        if (share) numbers[place] = isRubber ? numbers[place]! + (to - numbers[place]!) * share : Math.max(numbers[place]!, low + (to - low) * share);
      }
  };
  const stroke = (to: readonly [number, number], isRubber: boolean): void => {
    const numbers = Float64Array.from(machine.input(at).numbers), from = last ?? to;
    const steps = Math.max(1, Math.ceil(2 * Math.hypot(to[0] - from[0], to[1] - from[1])));
    for (let k = 1; k <= steps; k++) dab(from[0] + ((to[0] - from[0]) * k) / steps, from[1] + ((to[1] - from[1]) * k) / steps, numbers, isRubber);
    last = to;
    machine.set(at, 0, numbers);
  };
  const where = (event: PointerEvent): readonly [number, number] => {
    const box = canvas.getBoundingClientRect();
    return [((event.clientY - box.top) / box.height) * rows, ((event.clientX - box.left) / box.width) * columns];
  };
  const canvas: HTMLCanvasElement = h("canvas", {
    class: "ll-pad", tabindex: 0, role: "img", "aria-label": `A pad to draw ${name} on, ${rows} by ${columns}; arrow keys move the brush, space paints`,
    onpointerdown: (event: PointerEvent) => {
      canvas.setPointerCapture(event.pointerId);
      last = null;
      stroke(where(event), event.button === 2 || event.shiftKey);
    },
    onpointermove: (event: PointerEvent) => canvas.hasPointerCapture(event.pointerId) && stroke(where(event), (event.buttons & 2) > 0 || event.shiftKey),
    oncontextmenu: (event: Event) => event.preventDefault(),
  });
  canvas.style.aspectRatio = `${columns} / ${rows}`;
  keyed(canvas, ({ key }) => {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[key];
    if (step) spot = [Math.max(0, Math.min(rows, spot[0] + step[0]!)), Math.max(0, Math.min(columns, spot[1] + step[1]!))];
    else if (key === " ") {
      last = null;
      stroke(spot, false);
    }
    if (step) draw();
    return !!step || key === " ";
  });
  const draw = (): void => {
    paint(canvas, machine.input(at).numbers, [rows, columns], rampOf(canvas, true), Math.max(Math.abs(low), Math.abs(high)) || 1, 256);
    if (document.activeElement !== canvas || !canvas.matches(":focus-visible")) return;
    const context = canvas.getContext("2d")!;
    context.fillStyle = getComputedStyle(canvas).getPropertyValue("--ll-high");
    context.fillRect(Math.min(columns - 1, Math.floor(spot[1])), Math.min(rows - 1, Math.floor(spot[0])), 1, 1);
  };
  const clear = button("clear", `Wipe ${name}; shift or the right button while drawing is a rubber`, () => machine.set(at, 0, new Float64Array(rows * columns).fill(low)));
  return { parts: [canvas], more: [clear], draw };
}

/** A text, whose last tokens are the input; before a shorter one stand tokens 0. */
function typed(machine: Machine, at: number): Made {
  const { name, shape, control, first } = machine.inputs[at]!, words = control.words!, many = sizeOf(shape);
  const text = (numbers: ArrayLike<number>): string => Array.from(numbers, (token) => words[token] ?? "").join("");
  const note = h("p", { class: "ll-faint" });
  let shown = "";
  const field = h("input", {
    type: "text", class: "ll-field ll-typed", "aria-label": name, spellcheck: "false", autocomplete: "off",
    oninput: () => {
      const { tokens, unknown } = tokensOf(field.value, words), all = new Float64Array(many), last = tokens.slice(-many);
      all.set(last, many - last.length);
      shown = text(all);
      const over = tokens.length - many;
      fill(note, unknown ? `Not among its tokens: ${unknown}` : over > 0 ? `It reads the last ${many} of ${tokens.length} tokens.` : `${tokens.length} of ${many} tokens`);
      machine.set(at, 0, all);
    },
  });
  const start = Array.from(first).findIndex((token) => token !== 0);
  field.value = text(start < 0 ? [] : Array.from(first).slice(start));
  shown = text(first);
  const draw = (): void => {
    const now = text(machine.input(at).numbers);
    // Somebody has put it back.
    if (now !== shown) field.value = (shown = now).replace(new RegExp(`^(?:${escaped(words[0]!)})+`), "");
  };
  return { parts: [field, note], draw, field };
}

function escaped(word: string): string {
  return word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}

