// A text as the numbers of its tokens.

/** The tokens of a text, at each place the longest word that fits, and the first sign that is in none. */
export function tokensOf(text: string, words: readonly string[]): { readonly tokens: readonly number[]; readonly unknown: string } {
  const known = new Map<string, number>();
  words.forEach((word, at) => word && !known.has(word) && known.set(word, at));
  const longest = Math.max(1, ...words.map((word) => word.length)), tokens: number[] = [];
  let unknown = "";
  for (let at = 0; at < text.length; ) {
    let size = Math.min(longest, text.length - at);
    while (size && !known.has(text.slice(at, at + size))) size--;
    if (size) tokens.push(known.get(text.slice(at, at + size))!);
    else unknown ||= String.fromCodePoint(text.codePointAt(at)!);
    at += size || 1;
  }
  return { tokens, unknown };
}
