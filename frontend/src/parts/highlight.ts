// Colours for C, CUDA, Metal, PTX, assembly, Python and our own text forms: tokens by one regular expression each.

import { h } from "./dom";
import { css } from "./styles";

css`
.ll-comment { color: var(--ll-faint); font-style: italic; }
.ll-string { color: var(--ll-good); }
.ll-directive { color: var(--ll-odd); }
.ll-number { color: var(--ll-accent); }
.ll-keyword { color: var(--ll-bad); }
.ll-type { color: var(--ll-parameter-line); }
.ll-called { font-weight: 600; }
`;

export type Language = "c" | "cuda" | "metal" | "webgpu" | "stablehlo" | "ptx" | "asm" | "python" | "form";
/** What a piece of text is (nothing for the rest), and the text, which never holds a line's end. */
export type Token = readonly [kind: string, text: string];

const NUMBER = /(?<number>\b0x[\da-f]+\b|(?<![\w%])\d[\d.]*(?:e[+-]?\d+)?\w*)/.source;
const WORD = /(?<word>[A-Za-z_]\w*)/.source;
const STRING = /(?<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')/.source;
const SLASHES = /(?<comment>\/\/[^\n]*|\/\*[^]*?(?:\*\/|$(?![^])))/.source;
const HASH = /(?<comment>#[^\n]*)/.source;
const all = (...parts: string[]): RegExp => new RegExp(parts.join("|"), "gim");

const C = all(SLASHES, STRING, /(?<directive>^[ \t]*#[ \t]*\w+)/.source, NUMBER, WORD);
const FORMS: Record<Language, RegExp> = {
  c: C,
  cuda: C,
  metal: C,
  webgpu: C,
  ptx: all(SLASHES, STRING, /(?<directive>\.[a-z]\w*(?:::\w+)*)|(?<type>%[\w.]+)/.source, NUMBER, WORD),
  asm: all(HASH, /(?<directive>^\.?[A-Za-z_][\w.$]*:)|(?<type>%[\w.]+)|(?<keyword>^[ \t]+[a-z][\w.]*)/.source, NUMBER, WORD),
  stablehlo: all(SLASHES, STRING, /(?<type>%[\w.]+)|(?<keyword>\b(?:stablehlo|chlo|func)\.\w+)/.source, NUMBER, WORD),
  python: all(HASH, /(?<string>[rbf]{0,2}(?:"""[^]*?(?:"""|$(?![^]))|'''[^]*?(?:'''|$(?![^]))|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))|(?<directive>^[ \t]*@[\w.]+)/.source, NUMBER, WORD),
  form: all(HASH, STRING, /(?<type>%[\w.]+)/.source, NUMBER, WORD),
};
const words = (text: string): ReadonlySet<string> => new Set(text.split(" "));
const C_WORDS =
  "if else for while do return break continue switch case default static const constexpr inline struct typedef using template typename class enum sizeof restrict volatile goto asm true false " +
  "__global__ __device__ __shared__ __launch_bounds__ __forceinline__ kernel device threadgroup thread constant";
const KEYWORDS: Partial<Record<Language, ReadonlySet<string>>> = {
  c: words(C_WORDS),
  python: words("and as assert break class continue def del elif else except False finally for from global if import in is lambda None not or pass raise return True try while with yield"),
  webgpu: words("if else for return break continue fn let var const struct true false array vec2 vec3 atomic uniform storage workgroup private read_write compute workgroup_size builtin group binding"),
  stablehlo: words("module func return dense true false"),
  form: words("graph kernel nest for parallel simd vector local in sum max min shared barrier tile unroll split by fuse into reorder fission"),
};
const TYPES = /^(?:void|bool|char|short|int|long|unsigned|float\d?|double|half2?|auto|u?int\d*(?:_t)?|size_t|(lab_)?[iuf]\d+(x\d+)?|bf16|__half2?)$/;

/** Each line's tokens. */
export function tokens(text: string, language: Language): Token[][] {
  const lines: Token[][] = [[]];
  const put = (kind: string, piece: string): void => {
    const parts = piece.split("\n");
    parts.forEach((part, at) => {
      if (at) lines.push([]);
      if (part) lines[lines.length - 1]!.push([kind, part]);
    });
  };
  let done = 0;
  for (const found of text.matchAll(FORMS[language])) {
    if (found.index > done) put("", text.slice(done, found.index));
    done = found.index + found[0].length;
    put(kindOf(found, text[done], language), found[0]);
  }
  put("", text.slice(done));
  return lines;
}

function kindOf(found: RegExpMatchArray, next: string | undefined, language: Language): string {
  const [kind] = Object.entries(found.groups!).find(([, text]) => text !== undefined)!;
  if (kind !== "word") return kind;
  if ((KEYWORDS[language] ?? (language === "ptx" || language === "asm" ? undefined : KEYWORDS.c))?.has(found[0])) return "keyword";
  if (TYPES.test(found[0])) return "type";
  return next === "(" ? "called" : "";
}

/** A line as nodes. */
export function drawn(line: readonly Token[]): (Node | string)[] {
  return line.map(([kind, text]) => (kind ? h("span", { class: `ll-${kind}` }, text) : text));
}

/** The most characters of a line. */
export function widest(lines: readonly (readonly Token[])[]): number {
  return lines.reduce((most, line) => Math.max(most, line.reduce((sum, [, text]) => sum + text.length, 0)), 0);
}
