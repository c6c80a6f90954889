// @vitest-environment jsdom
// Colours: those of the static pictures, with enough contrast, and the theme of where we are.

import { readFileSync } from "node:fs";
import { afterEach, expect, test } from "vitest";
import { sheet, themed } from "../../src/parts/styles";
import "../../src/shell/shell";

const THEMES = [...sheet().matchAll(/\{((?:--ll-[\w-]+:#\w+;)+)color-scheme:(light|dark)/g)].map(([, variables, name]) => ({
  name: name!,
  of: Object.fromEntries(variables!.split(";").filter(Boolean).map((one) => one.slice(5).split(":") as [string, string])),
}));

function luminance(colour: string): number {
  const [red, green, blue] = [1, 3, 5].map((at) => {
    const part = parseInt(colour.slice(at, at + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red! + 0.7152 * green! + 0.0722 * blue!;
}

function contrast(one: string, other: string): number {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high! + 0.05) / (low! + 0.05);
}

test("there is a light and a dark one, and one by the reader's wish", () => {
  expect(THEMES.map(({ name }) => name)).toEqual(["light", "dark", "dark"]);
});

test.each(THEMES.slice(0, 2))("words can be read on every ground: $name", ({ of }) => {
  for (const ground of Object.keys(of).filter((name) => /^tint|-fill$|^(ground|open|panel|hover|chosen)$/.test(name))) {
    expect(contrast(of["text"]!, of[ground]!), `text on ${ground}`).toBeGreaterThan(4.5);
    if (!/tint|chosen/.test(ground)) expect(contrast(of["faint"]!, of[ground]!), `faint on ${ground}`).toBeGreaterThan(4.4);
  }
  for (const ground of ["ground", "panel", "chosen", "hover", "added-fill", "removed-fill"])
    for (const words of ["accent", "good", "bad", "odd"]) expect(contrast(of[words]!, of[ground]!), `${words} on ${ground}`).toBeGreaterThan(4.5);
});

test("the colours of nodes are those of the static pictures", () => {
  const python = readFileSync(`${import.meta.dirname}/../../../luminal_lab/viz/theme.py`, "utf8");
  const kinds = [...python.matchAll(/^ {4}"(\w+)": \("(#\w+)", "(#\w+)", "(#\w+)", "(#\w+)"\)/gm)];
  expect(kinds.length).toBe(18);
  const [light, dark] = THEMES;
  for (const [, kind, ...four] of kinds) {
    // What became of a node is told by its outline first there.
    const [fill, line, darkFill, darkLine] = ["added", "removed", "rewired"].includes(kind!) ? [four[1], four[0], four[3], four[2]] : four;
    expect([light!.of[`${kind}-fill`], light!.of[`${kind}-line`], dark!.of[`${kind}-fill`], dark!.of[`${kind}-line`]], kind).toEqual([fill, line, darkFill, darkLine]);
  }
  for (const [name, theme] of [["LIGHT", light], ["DARK", dark]] as const) {
    const colours = new RegExp(`^${name} = \\((.*)\\)$`, "m").exec(python)![1]!.match(/#\w+/g)!;
    expect(["ground", "text", "faint", "edge", "open", "high", "heat"].map((one) => theme!.of[one]), name).toEqual(colours);
  }
});

afterEach(() => document.body.removeAttribute("data-jp-theme-light"));

test("the theme is JupyterLab's where that says one, and may be chosen", () => {
  expect(themed("auto")).toBe("ll-root ll-auto");
  expect(themed("dark")).toBe("ll-root ll-dark");
  document.body.setAttribute("data-jp-theme-light", "false");
  expect(themed("auto")).toBe("ll-root");
});

test("large type has higher lines, too, wherever both are said", () => {
  const both = [...sheet().matchAll(/font: ?(?:\d+ )?(\S+?px[^/\s]*)\/(\S+)/g)].map(([, letters, line]) => [letters!, line!]);
  expect(both.length).toBeGreaterThan(2);
  for (const [letters, line] of both) expect([letters, line].filter((one) => !/^calc\([\d.]+px\*var\(--ll-type,1\)\)$|^[\d.]+$/.test(one!))).toEqual([]);
});

test("every class name begins with ll-", () => {
  const names = [...sheet().replace(/"[^"]*"/g, "").matchAll(/\.([a-zA-Z][\w-]*)/g)].map(([, name]) => name!);
  expect(names.filter((name) => !name.startsWith("ll-"))).toEqual([]);
});
