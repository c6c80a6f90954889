// @vitest-environment jsdom
import { beforeEach, expect, test, vi } from "vitest";
import { layoutFor, workbench } from "../../src/shell/workbench";
import { named, opened, press, RICH, silent, texts } from "../rich";

beforeEach(() => localStorage.clear());
const on = (stage = 1) => opened((store, host) => workbench(store, host, silent), { stage });
const tab = (host: Element, words: string) => [...host.querySelectorAll<HTMLElement>("[role=tab]")].find((one) => one.textContent === words)!;
const bench = (host: Element) => host.querySelector(".ll-bench")!;

test("tabs: arrow keys go through them, each makes its pane when it is first seen, the last is remembered", () => {
  const { host, pane } = on();
  expect(texts(host.querySelector(".ll-tabs > .ll-tablist")!, "[role=tab]")).toEqual(["firings", "about", "diff", "source", "kernels", "times", "advice", "memory", "Python", "and if?", "re-run"]);
  const panels = host.querySelectorAll<HTMLElement>("[role=tabpanel]");
  expect([...panels].filter((one) => one.childElementCount).length).toBe(1);
  press(tab(host, "firings"), "ArrowRight");
  expect([...panels].findIndex((one) => !one.hidden)).toBe(1);
  expect(document.activeElement!.textContent).toBe("about");
  press(tab(host, "about"), "End");
  expect(document.activeElement!.textContent).toBe("re-run");
  pane.dispose();
  expect(tab(on().host, "re-run").getAttribute("aria-selected")).toBe("true");
});
test("it begins at the pass that says most, unless somebody says where", () => {
  const begins = (place: object, first: number) => opened((store, host) => workbench(store, host, silent), place, { ...RICH, first }).store.place.stage;
  expect([begins({}, 1), begins({}, 2), begins({ stage: 3 }, 1)]).toEqual([1, 2, 3]);
  // What nobody could have sent is the last.
  expect(begins({}, -1)).toBe(RICH.stages.length - 1);
});
test("where there is room all is in sight, where there is little details are below", () => {
  const width = vi.spyOn(HTMLElement.prototype, "clientWidth", "get");
  const laid = (wide: number) => {
    width.mockReturnValue(wide);
    const { host, pane } = on(3);
    const found = { titles: texts(host, ".ll-heading h2"), tabs: texts(host.querySelector(".ll-tabs > .ll-tablist")!, "[role=tab]"), bars: [...host.querySelectorAll("[role=separator]")].map((one) => one.getAttribute("aria-orientation")) };
    pane.dispose();
    return found;
  };
  expect(laid(1300).titles).toEqual(["Python", "source", "times"]);
  expect(laid(1300).tabs).toEqual(["firings", "about", "diff", "kernels", "advice", "memory", "and if?", "re-run"]);
  expect(laid(1000)).toEqual({ titles: [], tabs: ["firings", "about", "diff", "source", "kernels", "times", "advice", "memory", "Python", "and if?", "re-run"], bars: ["vertical"] });
  expect(laid(500).bars).toEqual(["horizontal"]);
  // Large type needs more room for each, and height is what a projector has least of.
  expect([layoutFor(1280), layoutFor(1280, 2), layoutFor(2560, 2), layoutFor(500, 2)]).toEqual(["wide", "beside", "wide", "below"]);
  width.mockRestore();
});
test("a pane that is hidden catches up when it is seen", () => {
  const { store, host } = on();
  tab(host, "diff").click();
  tab(host, "Python").click();
  store.go({ stage: 3 });
  const note = [...host.querySelectorAll(".ll-note")].find((one) => one.textContent.includes("simplify: "))!;
  expect(note.textContent).toContain("simplify: ");
  tab(host, "diff").click();
  expect(note.textContent).toContain("fuse: ");
});
test("passes and firings by key", () => {
  const { store, host } = on();
  const said: string[] = [];
  store.on("said", (words) => said.push(words));
  press(bench(host), "]");
  expect([store.place.stage, said[0]]).toEqual([3, "fuse: 3 → 3 nodes, 2 firings, 1.00 ms; well-formed"]);
  press(bench(host), "{");
  expect(store.place.stage).toBe(2);
  press(bench(host), "[");
  press(bench(host), ".");
  expect(store.place).toEqual({ run: 0, stage: 1, firing: 1 });
  press(bench(host), ",");
  expect(store.place.firing).toBe(0);
  expect(press(bench(host), ",").defaultPrevented).toBe(false);
});
test("after every step the header and the details are about the same pass and firing", () => {
  const { store, host } = on();
  const agree = () => {
    const header = host.querySelector(".ll-bench > .ll-bar b")!.textContent, detail = host.querySelector(".ll-detail")!.textContent;
    const { stage, firing } = store.place, { name } = store.run.stages[stage]!;
    if (firing > 0) {
      const rule = store.run.firings(stage).rule(firing - 1);
      expect([header, detail]).toEqual([`${name}: firing ${firing} of ${store.run.stages[stage]!.firings}, ${rule}`, expect.stringMatching(new RegExp(`^${rule}, firing ${firing} of `))]);
      expect(store.selected).toEqual({ kind: "firing", stage, firing: firing - 1 });
    } else {
      expect(header).toContain(stage ? name : "as written");
      expect(detail).toMatch(firing ? (stage ? /firing|no rule fired/ : /as written/) : /Before the first firing/);
      expect(store.selected).toBe(null);
    }
  };
  for (const key of [".", ".", "]", ".", "[", ".", ",", ",", "]", ".", "{", "[", "}", "]", "."]) {
    press(bench(host), key);
    agree();
  }
});
test("where one picture takes the place of two, the keys stay in it", () => {
  const { store, host } = on();
  host.querySelector<HTMLElement>(".ll-graph")!.focus();
  press(document.activeElement!, "[");
  expect([store.place.stage, document.activeElement!.classList.contains("ll-graph")]).toEqual([0, true]);
  press(document.activeElement!, "]");
  expect(store.place.stage).toBe(1);
});
const type = (host: Element, words: string) => {
  const field = host.querySelector<HTMLInputElement>(".ll-find")!;
  field.value = words;
  field.dispatchEvent(new Event("input"));
  return field;
};
test("search: each hit says what it is and shows what matched; Enter goes there", () => {
  const { store, host } = on();
  const kinds = (words: string) => (type(host, words), texts(host, ".ll-what"));
  expect(kinds("fuse")).toEqual(["pass", "rule"]);
  expect(texts(host, ".ll-found mark")).toEqual(["fuse", "fuse"]);
  press(type(host, "fuse"), "Enter");
  expect(store.place.stage).toBe(3);
  expect(kinds("product")[0]).toBe("kernel");
  press(type(host, "product"), "Enter");
  expect([store.selected, tab(host, "source").getAttribute("aria-selected")]).toEqual([{ kind: "kernel", kernel: 0 }, "true"]);
  press(type(host, "line 2"), "Enter");
  expect([store.selected!.kind, tab(host, "Python").getAttribute("aria-selected")]).toEqual(["line", "true"]);
  press(type(host, "add-zero"), "Enter");
  expect([store.place.stage, store.selected, tab(host, "firings").getAttribute("aria-selected")]).toEqual([1, { kind: "rule", rule: "add-zero" }, "true"]);
  store.go({ stage: 0 });
  press(type(host, "mul"), "Enter");
  expect(store.selected).toEqual({ kind: "node", stage: 0, ids: [5] });
  expect(texts(host, ".ll-found mark")).toContain("mul");
});
test("what a pass has removed is found, and led to in the graph before", () => {
  const { store, host } = on();
  const captions = () => texts(host, ".ll-caption").map((one) => one.split(":")[0]);
  expect((type(host, "op:add"), texts(host, ".ll-what"))).toEqual(["removed node"]);
  expect(host.querySelector(".ll-search [role=status]")!.textContent).toBe("1 of 5 nodes, 1 of them removed");
  const modes = host.querySelector<HTMLSelectElement>(".ll-modes")!;
  modes.value = "after only";
  modes.dispatchEvent(new Event("change"));
  expect(captions()).toEqual(["after simplify"]);
  press(type(host, "op:add"), "Enter");
  expect(store.selected).toEqual({ kind: "node", stage: 0, ids: [4] });
  expect([store.place.stage, captions()]).toEqual([1, ["before simplify", "after simplify"]]);
  // What of several is there after the pass is selected together; of removed nodes alone those.
  type(host, "/add|constant/");
  named(host, "Select all").click();
  expect(store.selected).toEqual({ kind: "node", stage: 0, ids: [3, 4] });
  type(host, "/add|mul/");
  named(host, "Select all").click();
  expect(store.selected).toEqual({ kind: "node", stage: 1, ids: [5] });
});
test("a filter fades all but what was found, until the search is over", () => {
  const { store, host } = on(0);
  const field = type(host, "op:mul");
  named(host, "Filter").click();
  const heats = () => [...store.run.lines(0)].map((row) => store.overlay!.heat(row));
  expect([heats().filter((one) => one === 1).length, named(host, "Filter").getAttribute("aria-pressed")]).toEqual([1, "true"]);
  press(field, "Escape");
  expect(store.overlay).toBe(null);
});
test("the picture's hands are the explorer's: boxes, colours, relatives, table", () => {
  const { store, host } = on(0);
  press(bench(host), "a");
  store.select({ kind: "node", stage: 0, ids: [5] });
  press(bench(host), "a");
  expect(store.overlay!.name).toBe("what %5 depends on");
  press(bench(host), "o");
  expect(document.activeElement!.getAttribute("aria-label")).toBe("Colour by");
  press(bench(host), "t");
  expect(document.activeElement!.getAttribute("role")).toBe("grid");
  press(bench(host), "i");
  expect(tab(host, "about").getAttribute("aria-selected")).toBe("true");
});
test("Escape selects nothing, and is somebody else's when nothing is", () => {
  const { store, host } = on();
  store.select({ kind: "launch", launch: 0 });
  expect(host.querySelector(".ll-one")!.textContent).toContain("product");
  expect(press(bench(host), "Escape").defaultPrevented).toBe(true);
  expect(store.selected).toBeNull();
  expect(press(bench(host), "Escape").defaultPrevented).toBe(false);
});
test("a selection lights its relatives in every pane", () => {
  const { store, host } = on(3);
  for (const one of ["diff", "source", "kernels", "times", "memory", "Python"]) tab(host, one).click();
  store.select({ kind: "line", origin: 2 });
  for (const one of ["diff", "source", "kernels", "times", "memory", "Python"]) {
    tab(host, one).click();
    const panel = [...host.querySelectorAll<HTMLElement>(".ll-tabs > [role=tabpanel]")].find((panel) => !panel.hidden)!;
    expect(panel.querySelectorAll(".ll-lit").length, one).toBeGreaterThan(0);
  }
});
test("areas move, close and open by the keyboard, and what is closed is not reached", () => {
  const { host } = on();
  const bar = host.querySelector<HTMLElement>("[aria-label='between pictures and details']");
  const area = bar!.nextElementSibling as HTMLElement;
  press(bar!, "ArrowRight");
  expect(bar!.getAttribute("aria-valuenow")).toBe("63");
  press(bar!, "Enter");
  expect([bar!.getAttribute("aria-valuenow"), area.style.visibility]).toEqual(["100", "hidden"]);
  press(bar!, "Enter");
  expect([bar!.getAttribute("aria-valuenow"), area.style.visibility]).toEqual(["63", ""]);
});
test("it goes without a trace", () => {
  const { store, host, pane } = on();
  pane.dispose();
  expect(host.childElementCount).toBe(0);
  store.go({ stage: 3 });
  store.select({ kind: "launch", launch: 0 });
});
test("a button that clears, and one for the shortcuts", () => {
  const { store, host } = on();
  store.select({ kind: "launch", launch: 0 });
  named(host, "select nothing (Esc)").click();
  expect(store.selected).toBeNull();
  expect(named(host, "Shortcuts (?)")).toBeTruthy();
});
