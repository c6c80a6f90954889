// Who touches what in one block: threads by elements of an array, barrier by barrier, on a canvas.

import { columns, unpacked, type Arrays, type Columns } from "../data/columns";
import { button, fill, h } from "../parts/dom";
import { listen } from "../parts/keys";
import type { Pane } from "../data/store";
import { css } from "../parts/styles";
import { count } from "../data/units";

interface Header {
  readonly schema: number;
  readonly columns: Readonly<Record<string, readonly [keyof Arrays, number, number]>>;
  readonly kernel: string;
  readonly phases: number;
  readonly shown: string;
  readonly arrays: readonly { name: string; space: string; element: number; shape: readonly number[] }[];
  readonly lines: Readonly<Record<string, string>>;
  readonly findings: readonly string[];
}

/** Neighbouring transactions have different colours. */
const SECTORS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00"];
/** From bank 0 to bank 31, light by light. */
const BANKS = [0x440154, 0x3b528b, 0x21918c, 0x5ec962, 0xfde725];
const DOES = ["reads", "writes", "changes"];
const LEFT = 62, TOP = 18, ROWS = 300;

css`
.ll-acc { flex: 1; min-height: 0; overflow: auto; padding: 4px 8px; }
.ll-acc canvas { display: block; }
.ll-acc td, .ll-acc th { padding: 0 10px 0 0; text-align: left; font-weight: 400; white-space: nowrap; }
.ll-acc-said { padding: 4px 8px; min-height: 3.6em; border-top: 1px solid var(--ll-line); }
`;

/** Draw who touches what into a host. */
export function accesses(bytes: ArrayBuffer | Uint8Array, host: HTMLElement): Pane {
  let view: Pane | null = null, isGone = false;
  unpacked(bytes)
    .then((data) => void (isGone || (view = drawn(columns<Header>(data), host))))
    .catch((error: Error) => host.append(h("p", { class: "ll-sorry", role: "alert" }, error.message)));
  return {
    dispose: () => {
      isGone = true;
      view?.dispose();
    },
  };
}

/** What one thread does with one element: a square of the map, and the numbers of the accesses. */
interface Cell {
  readonly row: number;
  readonly place: number;
  readonly who: number[];
}

export function drawn(data: Columns<Header>, host: HTMLElement): Pane {
  const { phases, arrays, lines, shown, kernel, findings } = data.header;
  const [phase, array, thread, line, turn, kind, offset, bytes, wait, cost, first] = "phase array thread line turn kind offset bytes wait cost first"
    .split(" ")
    .map((name) => data.column(name)) as N[] as [N, N, N, N, N, N, N, N, N, N, N];
  const all = Array.from(phase, (_, k) => k);
  /** What is chosen one after the other: of what an access is one, and its words. */
  const choices: readonly { what: string; of: (k: number) => number; words: (value: number) => string }[] = [
    { what: "phase", of: (k) => phase[k]!, words: (one) => `phase ${one}: ${one ? `after barrier ${one}` : phases > 1 ? "before barrier 1" : "no barrier"}` },
    { what: "array", of: (k) => array[k]!, words: (one) => `${arrays[one]!.name}, ${arrays[one]!.space}` },
    { what: "warp", of: (k) => thread[k]! >> 5, words: (one) => `warp ${one}` },
    { what: "line", of: (k) => line[k]!, words: (one) => `line ${one}: ${(lines[one] ?? "").slice(0, 40)}` },
    { what: "turn", of: (k) => turn[k]!, words: (one) => `turn ${one + 1}` },
  ];
  const at = [0, 0, 0, -1, -1];
  if (all.every((k) => thread[k]! < 64)) at[2] = -1;
  let own = arrays[0]!, cells: Cell[] = [], rows: number[] = [], places: number[] = [], wide = 0, high = 0, cursor = -1, isTable = false;

  const selects = choices.map(({ what }, number) =>
    h("select", { class: "ll-select", "aria-label": what, onchange: (event: Event) => ((at[number] = +(event.target as HTMLSelectElement).value), draw()) }),
  );
  const step = (by: number): void => {
    const options = selects[0]!.options, next = options[selects[0]!.selectedIndex + by];
    if (next) (at[0] = +next.value), draw();
  };
  const canvas = h("canvas", { tabindex: 0, role: "img" }), table = h("table", { class: "ll-mono" });
  const area = h("div", { class: "ll-acc", role: "group", "aria-label": "accesses", tabindex: -1 }, canvas, table);
  const said = h("div", { class: "ll-acc-said", role: "status" }), summary = h("span", { class: "ll-faint" });
  const asTable = button("Table", "Table or picture", () => ((isTable = !isTable), draw()));
  fill(
    host,
    h("div", { class: "ll-bar" }, button("◀", "The phase before", () => step(-1)), selects[0], button("▶", "The next phase", () => step(1)), selects.slice(1), asTable, summary),
    findings.slice(0, 3).map((one) => h("pre", { class: "ll-sorry" }, one)),
    area,
    said,
  );

  function draw(): void {
    let found = all;
    choices.forEach(({ what, of, words }, number) => {
      const there = sorted(found.map(of)), select = selects[number]!;
      if (!there.includes(at[number]!)) at[number] = number < 2 ? (there[0] ?? 0) : -1;
      fill(select, number > 1 && h("option", { value: -1 }, `all ${what}s`), there.map((one) => h("option", { value: one }, words(one))));
      select.value = String(at[number]);
      if (at[number]! >= 0) found = found.filter((k) => of(k) === at[number]);
    });
    own = arrays[at[1]!]!;
    if (!found.length) return void (said.textContent = "This block touches no memory.");
    const byThread = new Map<number, Map<number, number[]>>();
    for (const k of found)
      for (let one = Math.floor(offset[k]! / own.element); one * own.element < offset[k]! + bytes[k]!; one++) {
        const row = byThread.get(thread[k]!) ?? new Map<number, number[]>(), who = row.get(one);
        who ? who.push(k) : row.set(one, [k]);
        byThread.set(thread[k]!, row);
      }
    rows = sorted(byThread.keys());
    places = sorted(rows.flatMap((one) => [...byThread.get(one)!.keys()]));
    cells = rows.flatMap((one, row) => [...byThread.get(one)!].sort(([a], [b]) => a - b).map(([place, who]) => ({ row, place, who })));
    cursor = -1;
    const sum = (of: N): number => found.reduce((all, k) => all + of[k]!, 0);
    const isShared = own.space === "shared";
    summary.textContent = `${count(found.length, "access", "accesses")}, ${count(sum(first), "request")}, ${isShared ? `${count(sum(cost), "turn")} of waiting` : count(sum(cost), "transaction")}`;
    canvas.setAttribute("aria-label", `${kernel}, ${choices[0]!.words(at[0]!)}, ${own.name}: ${summary.textContent}`);
    said.textContent = `${isShared ? "A colour is a bank, dark for 0, light for 31" : "Neighbours of one colour are one transaction of 32 bytes"}; a stroke: written; a ring: it waits for its bank. ${shown}. Arrow keys go from one to the next, [ and ] through the phases.`;
    canvas.hidden = isTable;
    table.hidden = !isTable;
    // A table is scrolled by the keyboard, too.
    area.tabIndex = isTable ? 0 : -1;
    asTable.setAttribute("aria-pressed", String(isTable));
    if (isTable)
      fill(
        table,
        h("caption", null, `${Math.min(ROWS, cells.length)} of ${cells.length}`),
        h("thead", null, h("tr", null, ["thread", "element", "part", "does"].map((one) => h("th", { scope: "col" }, one)))),
        h("tbody", null, cells.slice(0, ROWS).map((one) => h("tr", null, told(one).map((words) => h("td", null, words))))),
      );
    else paint();
  }

  const named = (place: number): string => {
    const found: number[] = [];
    for (const size of [...own.shape].reverse()) found.unshift(place % size), (place = Math.floor(place / size));
    return `[${found.length ? found.join(", ") : place}]`;
  };
  /** The transaction, or the bank, and its colour. */
  const part = (place: number): readonly [string, string] => {
    const byte = place * own.element, bank = (byte >> 2) % 32, sector = Math.floor(byte / 32);
    return own.space === "shared" ? [`bank ${bank}`, mixed(bank / 31)] : [`transaction ${sector}`, SECTORS[sector % 6]!];
  };
  const told = ({ row, place, who }: Cell): string[] => [
    `thread ${rows[row]} (lane ${rows[row]! % 32})`,
    own.name + named(place),
    part(place)[0],
    who.slice(0, 3).map((k) => `${DOES[kind[k]!]} it${wait[k] ? `, waiting ${count(wait[k]!, "turn")},` : ""} in turn ${turn[k]! + 1} of line ${line[k]}: ${lines[line[k]!]}`).join("; ") +
      (who.length > 3 ? `; ${who.length} times in all` : ""),
  ];

  function paint(): void {
    wide = Math.min(16, Math.max(4, (area.clientWidth - LEFT - 30) / places.length));
    high = Math.min(14, Math.max(5, (area.clientHeight - TOP - 14) / rows.length));
    const width = Math.min(16e3, LEFT + wide * places.length + 8), height = TOP + high * rows.length + 4, sharp = devicePixelRatio;
    canvas.width = width * sharp;
    canvas.height = height * sharp;
    canvas.style.cssText = `width:${width}px;height:${height}px`;
    const pen = canvas.getContext("2d");
    if (!pen) return;
    const style = getComputedStyle(host), colour = (name: string): string => style.getPropertyValue(`--ll-${name}`) || style.color;
    const box = (fill: string, x: number, y: number, w: number, h: number): void => ((pen.fillStyle = fill), pen.fillRect(x, y, w, h));
    const ink = colour("text"), faint = colour("line"), xs = new Map<number, number>();
    pen.scale(sharp, sharp);
    pen.font = "10px sans-serif";
    let free = 0;
    places.forEach((place, column) => {
      const x = LEFT + column * wide, isGap = place - 1 !== places[column - 1];
      xs.set(place, x);
      if (isGap && column) box(faint, x - 0.5, TOP, 1, height);
      pen.fillStyle = ink;
      if (x >= free && (isGap || place % 8 === 0)) pen.fillText(named(place), x, 12), (free = x + pen.measureText(named(place)).width + 8);
    });
    pen.textAlign = "right";
    rows.forEach((one, row) => {
      const y = TOP + row * high;
      if (row && one >> 5 !== rows[row - 1]! >> 5) box(faint, LEFT, y - 0.5, width, 1);
      pen.fillStyle = ink;
      if (row % Math.ceil(12 / high) === 0) pen.fillText(row ? `${one}` : `thread ${one}`, LEFT - 4, y + Math.min(high, 10) - 1);
    });
    cells.forEach(({ row, place, who }, number) => {
      const x = xs.get(place)! + 0.5, y = TOP + row * high + 0.5, w = wide - 1, d = high - 1;
      box(part(place)[1], x, y, w, d);
      // The darkest and the lightest colours are seen on dark and on light.
      if (Math.min(wide, high) > 4) (pen.strokeStyle = colour("edge")), (pen.lineWidth = 0.7), pen.strokeRect(x, y, w, d);
      pen.lineWidth = 1.3;
      if (who.some((k) => kind[k])) (pen.strokeStyle = "#fff"), pen.beginPath(), pen.moveTo(x, y + d), pen.lineTo(x + w, y), pen.stroke();
      pen.strokeStyle = number === cursor ? ink : colour("high");
      if (number === cursor || who.some((k) => wait[k])) pen.strokeRect(x, y, w, d);
    });
  }

  const go = (to: number): void => {
    if (!cells[to]) return;
    cursor = to;
    paint();
    said.textContent = told(cells[to]).join(", ");
  };
  const rowOf = (by: number): number => cells.findIndex(({ row }) => row === (cells[cursor]?.row ?? -1) + by);
  canvas.onpointermove = (event) => {
    const row = Math.floor((event.offsetY - TOP) / high), place = places[Math.floor((event.offsetX - LEFT) / wide)];
    const found = cells.find((one) => one.row === row && one.place === place);
    if (found) said.textContent = told(found).join(", ");
  };
  const stops = [
    listen(canvas, { nextCell: () => go(cursor + 1), previousCell: () => go(cursor - 1), nextThread: () => go(rowOf(1)), previousThread: () => go(rowOf(-1)) }),
    listen(host, { previousPhase: () => step(-1), nextPhase: () => step(1) }),
  ];
  const watch = typeof ResizeObserver === "function" ? new ResizeObserver(() => isTable || paint()) : null;
  watch?.observe(area);
  draw();
  return {
    dispose: () => {
      for (const stop of stops) stop();
      watch?.disconnect();
    },
  };
}

type N = ArrayLike<number>;

function sorted(values: Iterable<number>): number[] {
  return [...new Set(values)].sort((a, b) => a - b);
}

/** A colour between the ends of the ramp of banks. */
export function mixed(share: number): string {
  const place = share * 4, low = Math.min(3, Math.floor(place)), from = BANKS[low]!, to = BANKS[low + 1]!;
  return `rgb(${[16, 8, 0].map((bits) => Math.round(((from >> bits) & 255) + (((to >> bits) & 255) - ((from >> bits) & 255)) * (place - low)))})`;
}
