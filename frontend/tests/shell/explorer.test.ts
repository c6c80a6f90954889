// @vitest-environment jsdom
// The explorer as a whole: its tools, by mouse and by keys.

import { beforeEach, expect, test, vi } from "vitest";
import { withoutKernel, NO_KERNEL } from "../../src/data/live";
import { shell } from "../../src/shell/shell";
import { Store } from "../../src/data/store";
import { blocks, SIMPLE } from "../graphs";
import { made, type Made } from "../made";

let store: Store, root: HTMLElement, said: string[];

function begin(given: Made, place = {}): void {
  const host = document.createElement("div");
  document.body.replaceChildren(host);
  store = new Store(made(given), place);
  said = [];
  store.on("said", (sentence) => said.push(sentence));
  shell(host, store, { what: "explorer", theme: "light", live: withoutKernel() });
  root = host.querySelector(".ll-root")!;
}

const inner = () => root.querySelector<HTMLElement>(".ll-host")!;
const press = (key: string, at: Element = inner()) => at.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
const named = (name: string) => [...root.querySelectorAll("button")].find((one) => one.textContent === name || one.title.startsWith(name))!;
const find = (words: string) => {
  const field = root.querySelector<HTMLInputElement>(".ll-find")!;
  field.value = words;
  field.dispatchEvent(new Event("input"));
  return field;
};
const found = () => [...root.querySelectorAll(".ll-found > :first-child")].map((one) => one.textContent);
const colours = () => root.querySelector<HTMLSelectElement>('[aria-label="Colour by"]')!;
const colour = (name: string) => {
  colours().selectedIndex = [...colours().options].findIndex((one) => one.textContent === name);
  colours().dispatchEvent(new Event("change"));
  return new Promise((done) => setTimeout(done));
};

beforeEach(() => begin(SIMPLE, { stage: 0 }));

test("it finds nodes, and goes through them by Enter and arrow keys", () => {
  const field = find("op:/mul|add/");
  expect(found()).toEqual(["%4 add f32[4]", "%5 mul f32[4]"]);
  expect(root.querySelector(".ll-search [role=status]")!.textContent).toBe("2 of 5 nodes");
  press("Enter", field);
  expect(store.selected).toEqual({ kind: "node", stage: 0, ids: [4] });
  press("Enter", field);
  expect(store.selected).toEqual({ kind: "node", stage: 0, ids: [5] });
  press("Enter", field);
  expect(store.selected).toEqual({ kind: "node", stage: 0, ids: [4] });
  press("ArrowDown", field);
  press("ArrowDown", document.activeElement!);
  expect(store.selected).toEqual({ kind: "node", stage: 0, ids: [5] });
  named("Select all").click();
  expect(store.selected).toEqual({ kind: "node", stage: 0, ids: [4, 5] });
  press("Escape", field);
  expect([field.value, root.querySelector<HTMLElement>(".ll-search")!.hidden]).toEqual(["", true]);
});

test("what cannot be read or found is a sentence", () => {
  find("/(/");
  expect(root.querySelector(".ll-search [role=status]")!.textContent).toContain("/(/ is not a regular expression");
  find("dtpye:f16");
  expect(root.querySelector(".ll-search [role=status]")!.textContent).toBe("No node is so. Fields are op, label, name, shape, dtype, type, scope, line, rule, kind, text.");
});

test("what is found opens the boxes that hide it", () => {
  begin(blocks(30));
  store.setOpen(new Set());
  press("Enter", find("scope:h3.mlp"));
  expect([...store.open].sort()).toEqual(["h3", "h3.mlp"]);
});

test("a search follows to another graph", () => {
  find("op:mul");
  store.go({ stage: 3 });
  expect(found()).toEqual([]);
});

test("keys: search, table, panel, colours, shortcuts", () => {
  press("/");
  expect(document.activeElement).toBe(root.querySelector(".ll-find"));
  press("o");
  expect(document.activeElement).toBe(colours());
  const panel = root.querySelector<HTMLElement>(".ll-side")!, was = panel.hidden;
  press("i");
  expect(panel.hidden).toBe(!was);
  press("i");
  press("t");
  expect(root.querySelector("[role=grid]")).toBe(document.activeElement);
  press("t");
  expect(root.querySelector("[role=grid]")!.closest("[hidden]")).not.toBe(null);
  press("?");
  const help = root.querySelector<HTMLElement>("[role=dialog]")!;
  expect(help.textContent).toContain("light up all that the node depends on");
  expect(help.contains(document.activeElement)).toBe(true);
  press("Escape", help);
  expect(root.querySelector("[role=dialog]")).toBe(null);
});

test("colours have a legend, follow to another pass, and go by Escape", async () => {
  await colour("dtype");
  expect(root.querySelector(".ll-legend")!.textContent).toBe("dtypef32×5×");
  store.go({ stage: 3 });
  await new Promise((done) => setTimeout(done));
  expect(root.querySelector(".ll-legend")!.textContent).toBe("dtypef32×3×");
  press("Escape");
  expect([store.overlay, root.querySelector(".ll-legend"), colours().selectedIndex]).toEqual([null, null, 0]);
});

test("what only the kernel knows says so", async () => {
  await colour("numeric error");
  expect(root.querySelector(".ll-sorry")!.textContent).toContain(NO_KERNEL);
  expect(colours().selectedIndex).toBe(0);
});

test("ancestors and descendants of the selection are lit, and no longer", () => {
  expect(named("Light up all that the selection depends on").disabled).toBe(true);
  press("a");
  expect(said.at(-1)).toBe("Select a node first");
  store.select({ kind: "node", stage: 0, ids: [4] });
  press("a");
  expect(store.overlay!.name).toBe("what %4 depends on");
  expect(said.at(-1)).toBe("Lit: what %4 depends on, 2 nodes");
  press("a");
  expect(store.overlay).toBe(null);
  press("d");
  expect(store.overlay!.name).toBe("what depends on %4");
  store.go({ stage: 1 });
  expect(store.overlay).toBe(null);
});

test("boxes open and close by buttons and keys", () => {
  begin(blocks(30));
  store.setOpen(new Set());
  press("e");
  expect(store.open.size).toBe(30);
  press("E");
  expect(store.open.size).toBe(60);
  press("c");
  expect(store.open.size).toBe(30);
  named("Close all").click();
  expect(store.open.size).toBe(0);
});

test("another pass can be chosen where there are several", () => {
  const passes = root.querySelector<HTMLSelectElement>('[aria-label="Pass"]')!;
  expect([...passes.options].map((one) => one.textContent)).toEqual(["as written", "1. after simplify", "2. after nothing (no change)", "3. after fuse"]);
  passes.selectedIndex = 3;
  passes.dispatchEvent(new Event("change"));
  expect(store.place.stage).toBe(3);
  expect(root.querySelector<HTMLSelectElement>('[aria-label="Run"]')!.hidden).toBe(true);
});

test("a slider goes through the passes, and follows them", () => {
  const slider = root.querySelector<HTMLInputElement>("input[type=range]")!;
  expect([slider.hidden, slider.max, slider.value]).toEqual([false, "3", "0"]);
  slider.value = "2";
  slider.dispatchEvent(new Event("input"));
  expect(store.place.stage).toBe(2);
  store.go({ stage: 1 });
  expect(slider.value).toBe("1");
  begin(blocks(2));
  expect(root.querySelector<HTMLInputElement>("input[type=range]")!.hidden).toBe(true);
});

test("what is said is in the live region, also when it is said twice", () => {
  const region = root.querySelector("[role=status].ll-unseen")!;
  store.say("a");
  expect(region.textContent).toBe("a");
  store.say("a");
  expect(region.textContent).not.toBe("a");
});

test("JupyterLab hears no key that is used here", () => {
  const heard = vi.fn();
  document.body.addEventListener("keydown", heard);
  for (const key of ["a", "f", "e", "c", "/", "t"]) press(key);
  document.body.removeEventListener("keydown", heard);
  expect(heard).not.toHaveBeenCalled();
  expect(root.getAttribute("data-lm-suppress-shortcuts")).toBe("true");
});

test("where there is little room the rest of the tools stands behind a button, which the colours' key opens, too", () => {
  const bar = root.querySelector(".ll-hands")!, more = named("More");
  expect([more.getAttribute("aria-expanded"), bar.classList.contains("ll-unfolded")]).toEqual(["false", false]);
  more.click();
  expect([more.getAttribute("aria-expanded"), bar.classList.contains("ll-unfolded")]).toEqual(["true", true]);
  more.click();
  press("o");
  expect(bar.classList.contains("ll-unfolded")).toBe(true);
  expect(document.activeElement).toBe(colours());
});

test("the keys stay where the focus is lost, and a shell that is gone takes no focus", async () => {
  const element = root.parentElement!;
  element.replaceChildren();
  const drawn = shell(element, store, { what: "explorer", theme: "light", live: withoutKernel() });
  const host = element.querySelector<HTMLElement>(".ll-host")!;
  const focus = vi.spyOn(host, "focus");
  const pressed = async () => {
    host.blur();
    press("ArrowDown", host);
    await new Promise((done) => setTimeout(done, 1));
  };
  await pressed();
  expect(document.activeElement).toBe(host);
  expect(focus).toHaveBeenCalledTimes(1);
  const later = pressed();
  drawn.dispose();
  await later;
  expect(focus).toHaveBeenCalledTimes(1);
});
