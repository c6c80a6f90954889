// @vitest-environment jsdom
// Who touches what: phases, lines and turns choose; every access can be read without a mouse.

import { beforeEach, describe, expect, test } from "vitest";
import { accesses, drawn, mixed } from "../../src/panes/accesses";
import { columns } from "../../src/data/columns";
import { packed } from "../made";

const HEADER = {
  what: "accesses",
  kernel: "turned",
  phases: 2,
  shown: "6 accesses",
  arrays: [
    { name: "x", space: "global", element: 4, shape: [2, 2] },
    { name: "tile", space: "shared", element: 4, shape: [] },
  ],
  lines: { 3: "tile[t] = x[t];", 5: "y[t] = <b>tile</b>[32 * t];" },
  findings: ["turned: race: <script>"],
};
// Two threads read x and write tile; behind a barrier one reads a word that the other's bank has.
const COLUMNS = {
  phase: ["u32", [0, 0, 0, 0, 1, 1]],
  line: ["i32", [3, 3, 3, 3, 5, 5]],
  array: ["u8", [0, 0, 1, 1, 1, 1]],
  kind: ["u8", [0, 0, 1, 1, 0, 0]],
  thread: ["u32", [0, 1, 0, 1, 0, 1]],
  offset: ["u32", [0, 12, 0, 4, 0, 128]],
  bytes: ["u8", [8, 4, 4, 4, 4, 4]],
  turn: ["u32", [0, 0, 0, 0, 0, 0]],
  wait: ["u8", [0, 0, 0, 0, 0, 1]],
  cost: ["u8", [1, 0, 0, 0, 0, 1]],
  first: ["u8", [1, 0, 1, 0, 1, 0]],
} as const;
const bytes = packed(HEADER, COLUMNS);

let host: HTMLElement;
const picked = (label: string): HTMLSelectElement => host.querySelector(`select[aria-label=${label}]`)!;
const pick = (label: string, value: number): void => {
  picked(label).value = String(value);
  picked(label).dispatchEvent(new Event("change"));
};
const press = (key: string, target: Element = host.querySelector("canvas")!): boolean =>
  target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
const said = (): string => host.querySelector("[role=status]")!.textContent!;
const summary = (): string => host.querySelector(".ll-bar .ll-faint")!.textContent!;

beforeEach(() => {
  host = document.createElement("div");
  document.body.replaceChildren(host);
  HTMLCanvasElement.prototype.getContext = () => null;
});

describe("what is chosen", () => {
  test("the first phase and array, and of few threads all of them", () => {
    drawn(columns(bytes), host);
    expect([...picked("phase").options].map((one) => one.textContent)).toEqual(["phase 0: before barrier 1", "phase 1: after barrier 1"]);
    expect(picked("array").selectedOptions[0]!.textContent).toBe("x, global");
    expect(picked("warp").selectedOptions[0]!.textContent).toBe("all warps");
    expect(summary()).toBe("2 accesses, 1 request, 1 transaction");
    expect(host.querySelector("canvas")!.getAttribute("aria-label")).toContain("turned, phase 0: before barrier 1, x: 2 accesses");
  });

  test("a phase brings the arrays and lines that it has", () => {
    drawn(columns(bytes), host);
    pick("phase", 1);
    expect([...picked("array").options].map((one) => one.textContent)).toEqual(["tile, shared"]);
    expect(picked("line").options[1]!.textContent).toBe("line 5: y[t] = <b>tile</b>[32 * t];");
    expect(summary()).toBe("2 accesses, 1 request, 1 turn of waiting");
    pick("warp", 0);
    expect(summary()).toContain("2 accesses");
  });

  test("keys and buttons step through the phases", () => {
    drawn(columns(bytes), host);
    expect(press("]")).toBe(false);
    expect(picked("phase").value).toBe("1");
    press("]");
    expect(picked("phase").value).toBe("1");
    host.querySelector<HTMLButtonElement>("button[aria-label='The phase before']")!.click();
    expect(picked("phase").value).toBe("0");
  });
});

describe("what is said", () => {
  test("arrow keys go from one access to the next and name thread, element and line", () => {
    drawn(columns(bytes), host);
    press("ArrowRight");
    expect(said()).toBe("thread 0 (lane 0), x[0, 0], transaction 0, reads it in turn 1 of line 3: tile[t] = x[t];");
    press("ArrowRight");
    expect(said()).toContain("thread 0 (lane 0), x[0, 1]"); // the other half of what is 8 bytes wide
    press("ArrowDown");
    expect(said()).toContain("thread 1 (lane 1), x[1, 1]");
    press("ArrowUp");
    expect(said()).toContain("thread 0 (lane 0), x[0, 0]");
  });

  test("who waits for a bank is said", () => {
    drawn(columns(bytes), host);
    pick("phase", 1);
    press("ArrowDown");
    press("ArrowDown");
    expect(said()).toBe("thread 1 (lane 1), tile[32], bank 0, reads it, waiting 1 turn, in turn 1 of line 5: y[t] = <b>tile</b>[32 * t];");
  });

  test("the table has the same, and names stay text", () => {
    drawn(columns(bytes), host);
    pick("array", 1);
    [...host.querySelectorAll("button")].find((one) => one.textContent === "Table")!.click();
    const rows = [...host.querySelectorAll("tbody tr")].map((row) => [...row.children].map((cell) => cell.textContent));
    expect(rows).toEqual([
      ["thread 0 (lane 0)", "tile[0]", "bank 0", "writes it in turn 1 of line 3: tile[t] = x[t];"],
      ["thread 1 (lane 1)", "tile[1]", "bank 1", "writes it in turn 1 of line 3: tile[t] = x[t];"],
    ]);
    expect(host.querySelector("canvas")!.hidden).toBe(true);
    expect(host.querySelector("b, script")).toBeNull();
    expect(host.querySelector(".ll-sorry")!.textContent).toBe("turned: race: <script>");
  });
});

describe("what can go wrong", () => {
  test("a block that touches nothing says so", () => {
    const none = Object.fromEntries(Object.entries(COLUMNS).map(([name, [kind]]) => [name, [kind, []] as const]));
    drawn(columns(packed({ ...HEADER, arrays: [], findings: [] }, none)), host);
    expect(said()).toBe("This block touches no memory.");
  });

  test("damaged bytes are refused with a sentence", async () => {
    accesses(bytes.slice(0, 20), host);
    await new Promise((done) => setTimeout(done, 10));
    expect(host.querySelector("[role=alert]")!.textContent).toMatch(/damaged/);
  });
});

test("banks go from dark to light", () => {
  expect([mixed(0), mixed(0.5), mixed(1)]).toEqual(["rgb(68,1,84)", "rgb(33,145,140)", "rgb(253,231,37)"]);
});
