// The one style sheet: colours as variables, light and dark, and what all panes share.
//
// A pane says its own rules where it is written, by css`…`; class names begin with `ll-`. The build
// minifies what stands between the backquotes, so that nothing is put in by ${…} there.

const parts: string[] = [];

/** Add rules to the sheet. */
export function css(rules: TemplateStringsArray): void {
  parts.push(rules[0]!);
}

// The same as in viz/theme.py: of each kind of node its fill and its outline, on light and on dark.
const KINDS: Readonly<Record<string, string>> = {
  input: "ddf4ff 0969da 0c2d4d 58a6ff",
  parameter: "e7e9ff 4f5bd5 1d2150 8f9bff",
  constant: "f0f0f0 6e7781 22262c 9198a1",
  source: "dff5e6 1a7f37 10301b 3fb950",
  view: "ffffff 8c959f 0d1117 8b949e",
  op: "f6f8fa 6e7781 1b2129 8b949e",
  reduce: "fff1e5 bc4c00 33200f f0883e",
  call: "fbefff 8250df 2a1a45 b48bff",
  kernel: "ffeff7 bf3989 3a1530 f778ba",
  launch: "fff8c5 8a6100 322808 d9a520",
  host: "ffebe9 a4343a 3a1716 ff8f85",
  sent: "f6ece3 7a4b20 2d2015 d0a073",
  class: "fbefff 8250df 2a1a45 b48bff",
  outside: "ffffff 8c959f 0d1117 7d8590",
  box: "eaeef2 6e7781 21262d 8b949e",
  added: "dafbe1 1a7f37 12361f 3fb950",
  removed: "ffebe9 cf222e 3d1715 ff7b72",
  rewired: "fff8c5 9a6700 362a07 e3b341",
};
// Ground, text, faint text, edges, ground of open boxes, highlight, heat; then what panes are made
// of: the ground of bars and heads, thin lines, what is under the pointer, what is selected, links,
// and of words alone what is good, bad and odd.
const NAMES = "ground text faint edge open high heat panel line hover chosen accent good bad odd".split(" ");
const LIGHT = "ffffff 1f2328 57606a 6e7781 f6f8fa 0b7285 fb8f44 f6f8fa d0d7de eaeef2 ddf4ff 0550ae 116329 a40e26 7d4e00".split(" ");
const DARK = "0d1117 e6edf3 9aa4af 8b949e 13181f 3bc9db db6d28 161b22 30363d 21262d 12304f 79c0ff 56d364 ff9790 e3b341".split(" ");
const FORCED = "Canvas CanvasText CanvasText CanvasText Canvas Highlight GrayText Canvas CanvasText Canvas Canvas LinkText CanvasText CanvasText CanvasText";

/** Of classes of things, as grounds of text. */
const TINTS = ["cfe2ff ffdfb3 cdeed2 ffd1e0 e2d7ff ccecf1 efeaa6 e1e4e8", "1c3f70 5b3c10 1c4b28 5c203b 3d2c70 124b54 4c4911 3a4048"];

function variables(dark: boolean): string {
  const own = NAMES.map((name, at) => `--ll-${name}:#${(dark ? DARK : LIGHT)[at]!};`).join("");
  const kinds = Object.entries(KINDS).map(([kind, colours]) => {
    const [fill, line] = colours.split(" ").slice(dark ? 2 : 0);
    return `--ll-${kind}-fill:#${fill!};--ll-${kind}-line:#${line!};`;
  });
  const tints = TINTS[Number(dark)]!.split(" ").map((colour, at) => `--ll-tint-${at}:#${colour};`);
  return `${own}${kinds.join("")}${tints.join("")}color-scheme:${dark ? "dark" : "light"};`;
}

function forced(): string {
  const own = FORCED.split(" ").map((colour, at) => `--ll-${NAMES[at]!}:${colour};`);
  const kinds = Object.keys(KINDS).map((kind) => `--ll-${kind}-fill:Canvas;--ll-${kind}-line:CanvasText;`);
  const tints = TINTS[0]!.split(" ").map((_, at) => `--ll-tint-${at}:Canvas;`);
  return [...own, ...kinds, ...tints].join("");
}

/** Sizes of letters and of lines: large type multiplies all of them. */
const TYPE = /((?:font|font-size|line-height|min-height): ?(?:\d+ )?)([\d.]+)px(?:\/([\d.]+)px)?/g;
const larger = (pixels: string): string => `calc(${pixels}px*var(--ll-type,1))`;

/** By how much letters are larger than usual. */
export function typeScale(element: Element): number {
  return Number(getComputedStyle(element).getPropertyValue("--ll-type")) || 1;
}

/** All rules: JupyterLab says whether it is dark, as VS Code and Colab do; a page follows its reader. */
export function sheet(): string {
  const dark = variables(true);
  const darkened =
    ':is([data-jp-theme-light="false"],[data-vscode-theme-kind*="dark"],[data-vscode-theme-kind="vscode-high-contrast"],html[theme="dark"])';
  return (
    `.ll-root{${variables(false)}}${darkened} .ll-root:not(.ll-light),.ll-root.ll-dark{${dark}}` +
    `@media(prefers-color-scheme:dark){.ll-root.ll-auto{${dark}}}` +
    `@media(forced-colors:active){.ll-root.ll-root{${forced()}}}` +
    parts.join("").replace(TYPE, (_, what: string, letters: string, line?: string) => what + larger(letters) + (line ? `/${larger(line)}` : ""))
  );
}

/** What a root element is called, so that it has the colours of where it is. */
export function themed(theme: string): string {
  if (theme === "light" || theme === "dark") return `ll-root ll-${theme}`;
  const asked = document.querySelector("[data-jp-theme-light],[data-vscode-theme-kind],html[theme]");
  return asked ? "ll-root" : "ll-root ll-auto";
}

css`
.ll-root {
  position: relative; display: flex; flex-direction: column; box-sizing: border-box; min-width: 0;
  background: var(--ll-ground); color: var(--ll-text); border: 1px solid var(--ll-line); border-radius: 6px; overflow: hidden;
  --ll-font: system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif;
  --ll-mono: Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font: 13px/1.45 var(--ll-font); text-align: left;
}
.ll-root *, .ll-root *::before, .ll-root *::after { box-sizing: border-box; }
.ll-root [hidden] { display: none !important; }
.ll-root :focus-visible { outline: 2px solid var(--ll-accent); outline-offset: -2px; }
.ll-root.ll-root :is(dt, dd) { float: none; width: auto; font-weight: inherit; padding: 0; }
.ll-mono, .ll-root code, .ll-root pre { font-family: var(--ll-mono); font-size: 12px; }
/* JupyterLab breaks words in what is preformatted, anywhere. */
.ll-root pre { margin: 0; white-space: pre; word-break: normal; overflow: auto; background: none; color: inherit; }
.ll-faint { color: var(--ll-faint); }
.ll-button, .ll-field, .ll-select {
  font: inherit; color: var(--ll-text); background: var(--ll-ground); border: 1px solid var(--ll-line); border-radius: 5px;
  min-height: 26px; padding: 2px 8px; margin: 0;
}
.ll-button { cursor: pointer; white-space: nowrap; }
.ll-button:hover:not(:disabled), .ll-select:hover { background: var(--ll-hover); }
.ll-button:disabled { color: var(--ll-faint); border-style: dashed; cursor: default; }
.ll-button[aria-pressed="true"], .ll-button[aria-expanded="true"] { background: var(--ll-chosen); border-color: var(--ll-accent); }
.ll-group { display: inline-flex; }
.ll-group > .ll-button { border-radius: 0; margin-left: -1px; }
.ll-group > .ll-button:first-child { border-radius: 5px 0 0 5px; margin-left: 0; }
.ll-group > .ll-button:last-child { border-radius: 0 5px 5px 0; }
.ll-link { font: inherit; color: var(--ll-accent); background: none; border: 0; padding: 0; margin: 0; cursor: pointer; text-align: left; text-decoration: underline dotted; text-underline-offset: 4px; }
.ll-bar { display: flex; flex-wrap: wrap; align-items: center; gap: 4px; padding: 5px 6px; background: var(--ll-panel); border-bottom: 1px solid var(--ll-line); }
.ll-grow { flex: 1 1 auto; min-width: 0; }
.ll-unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
.ll-sorry { padding: 6px 8px; border-left: 3px solid var(--ll-bad); background: var(--ll-panel); margin: 6px 0; }
@media (prefers-reduced-motion: reduce) { .ll-root * { transition: none !important; animation: none !important; scroll-behavior: auto !important; } }
`;
