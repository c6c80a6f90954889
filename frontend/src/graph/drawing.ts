// Draws one part of a frame: wires, boxes and nodes, at one level of detail.

import { s, type Attributes, type Child } from "../parts/dom";
import type { Camera } from "./camera";
import { WORD, type Level } from "./lod";
import { textWidth } from "../data/metrics";
import type { Presence } from "../data/presence";
import { TOP, type Cell, type Piece, type Placed, type Rect, type Scene } from "./scene";
import { courseData, outline, shortened, tenth, tip } from "./shapes";
import { sendingAt, sizeSent } from "../data/spread";
import type { Overlay, Worth } from "../data/store";
import { css } from "../parts/styles";
import { bytes, count } from "../data/units";
import { ADDED, KEPT, PASSING, RECOMPUTED, REMOVED, RETRIEVED, REWIRED, UNUSED, type Box } from "../data/view";

css`
.ll-graph text { font-family: Helvetica, Arial, "Liberation Sans", "DejaVu Sans Condensed", "DejaVu Sans", sans-serif; font-size: calc(10.5px * var(--ll-fit, 1)); fill: var(--ll-text); text-anchor: middle; pointer-events: none; }
.ll-graph .ll-name { font-size: calc(12.5px * var(--ll-fit, 1)); font-weight: bold; }
.ll-graph .ll-id { font-size: calc(10px * var(--ll-fit, 1)); font-weight: normal; fill: var(--ll-faint); }
.ll-graph .ll-below { fill: var(--ll-faint); }
.ll-graph .ll-under { stroke: var(--ll-ground); stroke-width: 3px; paint-order: stroke; }
.ll-graph .ll-title { font-size: calc(12px * var(--ll-fit, 1)); font-weight: bold; fill: var(--ll-faint); text-anchor: start; stroke: var(--ll-ground); stroke-width: 3px; paint-order: stroke; }
.ll-graph .ll-far { stroke: var(--ll-ground); stroke-width: .25em; paint-order: stroke; font-weight: bold; }
.ll-graph .ll-way { font-size: calc(10px * var(--ll-fit, 1)); font-style: italic; fill: var(--ll-faint); text-anchor: start; stroke: var(--ll-ground); stroke-width: 3px; paint-order: stroke; }
.ll-graph .ll-word { font-size: calc(16px * var(--ll-fit, 1)); }
.ll-graph .ll-gone { fill: var(--ll-removed-line); } .ll-struck { text-decoration: line-through; }
.ll-graph .ll-wire { fill: none; }
.ll-broken { stroke-dasharray: 5 3; }
.ll-dotted { stroke-dasharray: .1 4; stroke-linecap: round; stroke-width: 2px; }
.ll-pale { opacity: .5; }
`;

/** What of a status is drawn: its name among the colours, and its sign. */
export const STATUS: Readonly<Record<number, readonly [name: string, sign: string]>> = {
  [ADDED]: ["added", "+"], [REMOVED]: ["removed", "−"], [REWIRED]: ["rewired", "~"], [PASSING]: ["rewired", "±"],
};
const CHANGES = [["added", "+"], ["removed", "−"], ["rewired", "~"]] as const;
const SIGNS: readonly (readonly [number, string])[] = [[KEPT, "◆"], [RECOMPUTED, "↻"], [UNUSED, "∅"]];
const LONGEST = 44, TITLE = 60;
/** How high a node is, or lower. */
const LOW = 40;

/** All that decides how things look. */
export interface Look {
  readonly scene: Scene;
  readonly there: Presence;
  readonly level: Level;
  readonly overlay: Overlay | null;
}

/** What of a part is there at the present place. */
export interface Shown {
  readonly things: readonly number[];
  readonly pieces: readonly Piece[];
}

export function shownOf({ scene, there }: Look, placed: Placed, cell: Cell): Shown {
  const { frame } = scene.view, first = frame.things[placed.frame]!, wire = frame.wires[placed.frame]!;
  return {
    things: cell.things.filter((place) => there.has(first + place)),
    pieces: cell.pieces.filter((piece) => there.hasWire(wire + piece.wire, placed.frame)),
  };
}

export interface Drawn {
  readonly element: SVGGElement;
  /** The name of the box around it, which lies over everything. */
  readonly title: SVGTextElement | null;
  readonly things: ReadonlyMap<number, SVGGElement>;
}

/** A part as an element, from the upper left corner of its frame; with the elements of its things. */
export function drawn(look: Look, placed: Placed, cell: Cell, shown: Shown): Drawn {
  const element = s("g"), things = new Map<number, SVGGElement>();
  const first = look.scene.view.frame.things[placed.frame]!;
  const isNear = look.level.detail > 0;
  const opens = shown.things.filter((place) => placed.placement.inner.has(place));
  for (const place of opens) element.append(...openBox(look, first + place, placed.placement.rect(place)));
  element.append(...wires(look, placed, shown.pieces));
  if (isNear)
    for (const place of shown.things) {
      if (placed.placement.inner.has(place)) continue;
      const one = thing(look, first + place, placed.placement.rect(place));
      things.set(first + place, one);
      element.append(one);
    }
  else element.append(...far(look, placed, shown.things, first));
  return { element, things, title: placed.frame && cell === placed.placement.parts[0] ? title(look, placed) : null };
}

// -- boxes ----------------------------------------------------------------------------------------

/** How thick a line is that shall be one pixel or nearly so, also far out. */
export const thick = (level: Level): number => (level.detail ? 1 : level.letters / 16);
const paint = (name: string) => ({ fill: `var(--ll-${name}-fill)`, stroke: `var(--ll-${name}-line)` });

function openBox(look: Look, one: number, rect: Rect): SVGElement[] {
  const colours = { fill: "var(--ll-open)", stroke: "var(--ll-edge)", "stroke-width": tenth(thick(look.level)) };
  return [...sheets(look.scene.view.box(one), rect, colours), shape("op", rect, 0, colours)];
}

/** The outline of a kind, so much within a rectangle. */
function shape(kind: string, { x, y, width, height }: Rect, within: number, more: Attributes): SVGPathElement {
  return s("path", { d: outline(kind, x + within, y + within, width - 2 * within, height - 2 * within), ...more });
}

/** The sheets behind a box that stands for several. */
function sheets(box: Box | undefined, rect: Rect, colours: Attributes): SVGPathElement[] {
  if (!box || box.times < 2) return [];
  return [6, 3].map((at) => shape("op", { ...rect, x: rect.x + at, y: rect.y - at }, 0, colours));
}

/** The name of a box in a room, or a shorter one, in letters of a size; nothing is cut off. */
function fitting(box: Box, size: number, width: number, height: number): string | undefined {
  const last = box.times > 1 ? `×${box.times}` : box.name.slice(box.name.lastIndexOf(".") + 1);
  return size < 0.85 * height ? [titleOf(box), last].find((one) => textWidth(one, size) <= width) : undefined;
}

/** Letters of a size that is no class's own. */
const lettered = (size: number) => `font-size:calc(${tenth(size)}px*var(--ll-fit,1))`;

export function titleOf(box: Box): string {
  return shortened(box.name, TITLE) + (box.times > 1 ? `  ×${box.times}` : "");
}

/** Where the title of an open box begins: where one sees it, if the box begins left of the screen. */
export function titleLeft({ scene, level }: Look, { x, scale }: Camera, box: number): number {
  const rect = scene.rect(box)!, wide = textWidth(titleOf(scene.view.box(box)!), level.detail < 2 ? WORD : 12);
  return Math.max(rect.x + 10, Math.min((6 - x) / scale, rect.x + rect.width - wide - 10));
}

/** Where the letters of that title stand, in a frame that begins at a height: whole, if the screen's edge would cut them. */
export function titleTop({ level }: Look, { y, scale }: Camera, frame: number): number {
  const top = frame + titleLine(level), high = (level.detail < 2 ? WORD : 12) + 2, seen = top + y / scale;
  return seen > 0 && seen < high ? top + high - seen : top;
}

const titleLine = (level: Level): number => (level.detail < 2 ? 20 : 17) - TOP;

/** The title of an open box, over the wires that go in. */
function title({ scene, level }: Look, placed: Placed): SVGTextElement | null {
  const { view } = scene, one = view.frame.box[placed.frame]!, box = view.box(one), rect = scene.rect(one);
  if (!box || !rect) return null;
  const left = rect.x - placed.x, text = titleOf(box), size = level.letters;
  if (level.detail) return s("text", { class: `ll-title${level.detail < 2 ? " ll-word" : ""}`, x: tenth(left + 10), y: titleLine(level) }, text);
  // Far out there is a name where it has room, below that of the box around it.
  const outer = scene.rect(view.frame.box[view.thing.frame[one]!]!), name = fitting(box, size, rect.width - size, rect.height / 2);
  if (!name || (outer && rect.y - outer.y < 1.3 * size)) return null;
  return s("text", { class: "ll-title ll-far", x: tenth(left + size / 2), y: tenth(1.1 * size - TOP), style: lettered(size) }, name);
}

// -- wires ----------------------------------------------------------------------------------------

/** Where a wire of a frame runs, or a piece of it; from border to border of the frame's box. */
export function wireData({ view }: Scene, placed: Placed, { wire: place, course, isStart, isEnd }: Piece): string {
  const wire = view.frame.wires[placed.frame]! + place, end = course.length;
  let data = courseData(course);
  const border = (y: number) => tenth(y < placed.placement.height / 2 ? -TOP : placed.placement.height + placed.below);
  if (isStart && view.wire.source[wire]! < 0) data = `M${tenth(course[1]!)} ${border(course[2]!)}V${tenth(course[2]!)}${data.slice(data.search(/[LVC]/))}`;
  if (isEnd && view.wire.target[wire]! < 0) data += `V${border(course[end - 1]!)}`;
  return data;
}

function wires(look: Look, placed: Placed, shown: readonly Piece[]): SVGElement[] {
  const { scene, there, level } = look, { view } = scene;
  const firstWire = view.frame.wires[placed.frame]!, first = view.frame.things[placed.frame]!;
  const lines = new Map<number, Set<string>>(), tips = new Map<number, Set<string>>(), words: SVGElement[] = [];
  const add = (map: Map<number, Set<string>>, status: number, data: string) => {
    const known = map.get(status);
    if (known) known.add(data);
    else map.set(status, new Set([data]));
  };
  for (const piece of shown) {
    const wire = firstWire + piece.wire, status = there.wireStatus(wire, placed.frame), { course } = piece;
    if (!level.detail && isShort(course, 4 * thick(level))) continue;
    // Between two closed boxes several values may go one and the same way.
    add(lines, status, wireData(scene, placed, piece));
    const target = view.wire.target[wire]!;
    if (!level.detail || !piece.isEnd || target < 0 || scene.isOpen(first + target)) continue;
    add(tips, status, tip(course));
    const label = level.detail > 1 ? there.run.string(view.wire.label[wire]!) : "";
    if (label) words.push(s("text", { class: "ll-way", x: tenth(course[course.length - 2]! + 5), y: tenth(course[course.length - 1]! - 5) }, label));
  }
  const colour = (status: number) => (STATUS[status] ? `var(--ll-${STATUS[status][0]}-line)` : "var(--ll-edge)");
  const found: SVGElement[] = [];
  for (const [status, data] of lines)
    found.push(s("path", {
      class: `ll-wire${status === REMOVED || status === PASSING ? " ll-broken" : ""}`, stroke: colour(status), d: [...data].join(""),
      "stroke-width": tenth((status ? 1.8 : 1.2) * thick(level)),
    }));
  for (const [status, data] of tips) found.push(s("path", { fill: colour(status), d: [...data].join("") }));
  return [...found, ...words];
}

/** Whether a wire is hardly longer than it is thick, so that one would see no wire. */
function isShort(course: Float32Array, least: number): boolean {
  const end = course.length;
  return Math.abs(course[end - 2]! - course[1]!) + Math.abs(course[end - 1]! - course[2]!) < least;
}

// -- things ---------------------------------------------------------------------------------------

/** What an overlay says of a thing. */
export function worthOf({ scene, there, overlay }: Pick<Look, "scene" | "there" | "overlay">, one: number): Worth | null {
  if (!overlay) return null;
  const row = there.row(one);
  if (row >= 0) return { heat: overlay.heat(row), text: overlay.text(row), tint: overlay.tint?.(row) ?? null };
  return overlay.inBox?.(scene.view.rowsIn(one).filter((inner) => there.isThere(inner))) ?? null;
}

function kindOf(look: Look, one: number): string {
  const row = look.there.row(one);
  return row < 0 ? "box" : look.there.run.kind(row);
}

/** Far out: all outlines of a kind as one path, and the names of what is large. */
function far(look: Look, placed: Placed, shown: readonly number[], first: number): SVGElement[] {
  const paths = new Map<string, string>(), tints = new Map<string, string>(), names: SVGElement[] = [];
  const letters = 0.9 * look.level.letters, isTiny = LOW < 4 * thick(look.level);
  for (const place of shown) {
    if (placed.placement.inner.has(place)) continue;
    const { x, y, width, height } = placed.placement.rect(place), one = first + place;
    const data = `M${tenth(x)} ${tenth(y)}h${tenth(width)}v${tenth(height)}h${-tenth(width)}z`;
    const colour = STATUS[look.there.status(one)]?.[0] ?? kindOf(look, one);
    paths.set(colour, (paths.get(colour) ?? "") + data);
    const tint = tintOf(worthOf(look, one));
    if (tint) tints.set(tint, (tints.get(tint) ?? "") + data);
    const box = look.scene.view.box(one), name = box && fitting(box, letters, width - letters / 2, height);
    if (name) names.push(s("text", { class: "ll-name", x: tenth(x + width / 2), y: tenth(y + height / 2 + letters / 3), style: lettered(letters) }, name));
  }
  return [
    ...[...paths].map(([name, d]) => s("path", { d, ...(isTiny ? { fill: `var(--ll-${name}-line)`, "fill-opacity": 0.6 } : { ...paint(name), "stroke-width": tenth(thick(look.level)) }) })),
    ...[...tints].map(([tint, d]) => s("path", { d, fill: tint.split("|")[0], "fill-opacity": tint.split("|")[1] })),
    ...names,
  ];
}

/** A colour and how strong it is, in steps, so that few paths are needed. */
function tintOf(worth: Worth | null): string {
  if (worth?.tint) return `${worth.tint}|0.55`;
  const heat = worth?.heat ?? 0;
  return heat > 0 ? `var(--ll-heat)|${0.15 + 0.65 * (Math.round(Math.min(1, heat) * 8) / 8)}` : "";
}

function thing(look: Look, one: number, rect: Rect): SVGGElement {
  const { there, scene, level, overlay } = look, { view } = scene, { x, y, width, height } = rect;
  const row = there.row(one), kind = kindOf(look, one), box = row < 0 ? view.box(one) : undefined;
  const status = there.status(one), marks = view.thing.marks[one]!;
  const [name, sign] = STATUS[status] ?? [kind, ""];
  const isUnused = there.isUnused(one);
  // A broken outline is what is gone, a dotted one a view.
  const isGone = status === REMOVED || status === PASSING;
  const lines = { ...paint(name), class: isGone ? "ll-broken" : kind === "view" || kind === "outside" ? "ll-dotted" : null, "stroke-width": status || box ? 2 : 1.2 };
  const worth = worthOf(look, one), tint = tintOf(worth).split("|"), middle = tenth(x + width / 2);
  const isPale = (isUnused && !status) || (overlay && !worth?.text && !worth?.heat && !worth?.tint);
  const group = s("g", { class: isPale ? "ll-pale" : null }, ...sheets(box, rect, lines), shape(kind, rect, 0, lines));
  if (marks & RETRIEVED) group.append(shape(kind, rect, 3, lines));
  if (tint[0]) group.append(shape(kind, rect, 2, { fill: tint[0], "fill-opacity": tint[1] }));
  if (worth?.heat)
    group.append(s("rect", { x: tenth(x + 8), y: tenth(y + height - 5), width: tenth(Math.min(1, worth.heat) * (width - 16)), height: 3, fill: "var(--ll-heat)" }));
  const isNear = level.detail > 1, sending = row >= 0 && !isGone ? sendingAt(there.run, row) : undefined;
  if (sending?.share && !worth?.heat)
    group.append(s("rect", { class: "ll-sent-bar", x: tenth(x + 8), y: tenth(y + height - 5), width: tenth(Math.max(2, sending.share * (width - 16))), height: 3, fill: "var(--ll-sent-line)" }));
  const below = !isNear ? "" : worth?.text || (sending && sizeSent(sending)) || (box || kind === "constant" ? "" : there.run.type(row));
  const hasTwo = height >= 40, isUnder = below && !hasTwo && !box;
  const base = !isNear ? height / 2 + 5.5 : box ? 18.5 : hasTwo && below ? 16.5 : height / 2 + 4.5;
  const signs = sign + SIGNS.filter(([mark]) => (mark === UNUSED ? isUnused : marks & mark)).map(([, text]) => text).join("");
  group.append(
    s(
      "text",
      { class: `ll-name${isNear ? "" : " ll-word"}${status === REMOVED ? " ll-gone" : ""}`, x: middle, y: tenth(y + base) },
      signs !== "" && s("tspan", { fill: sign ? `var(--ll-${name}-line)` : null }, `${signs} `),
      status === REMOVED ? s("tspan", { class: "ll-struck" }, there.run.label(row)) : box ? titleOf(box) : isNear || !sending ? there.run.label(row) : sentLabel(there.run.label(row), bytes(sending.bytes), width),
      isNear && row >= 0 && !/^(input|parameter|constant)$/.test(kind) && s("tspan", { class: "ll-id", dx: 5 }, `%${shortened(there.run.name(row), 28)}`),
    ),
  );
  if (isNear && (below || box))
    group.append(
      s(
        "text",
        { class: `ll-below${isUnder ? " ll-under" : ""}`, x: middle, y: tenth(y + (isUnder ? height + 9 : box ? 34.5 : 31.5)) },
        below ? worded(below, width - 6) : inBox(look, one),
      ),
    );
  return group;
}

/** What is sent and how much, in the room that there is further out: over which axis is left out first. */
function sentLabel(label: string, size: string, width: number): string {
  const all = [`${label} ${size}`, `${label.replace(/ (over|to) .*$/, "")} ${size}`];
  return all.find((one) => textWidth(one, 15) <= width - 16) ?? label;
}

/** What an overlay or a type says, in the room that a thing has: its first words, where all of them are too many. */
function worded(text: string, room: number): string {
  const found = [text, text.split(", ")[0]!].find((one) => textWidth(one, 10.5) <= room) ?? text;
  return shortened(found, LONGEST);
}

/** The second line of a closed box: how much is in it here, and what of that a pass changed. */
function inBox({ there }: Look, one: number): Child[] {
  const { nodes, isEach, ...changes } = there.inBox(one);
  return [
    count(nodes, "node") + (isEach ? " each" : ""),
    CHANGES.filter(([name]) => changes[name]).map(([name, sign]) => s("tspan", { dx: 5, "font-weight": "bold", fill: `var(--ll-${name}-line)` }, `${sign}${changes[name].toLocaleString("en")}`)),
  ];
}
