// Elements, made in one call each; text gets in by text nodes alone.

export type Child = Node | string | number | null | undefined | false | readonly Child[];
type Listener = (event: never) => void;
export type Attributes = Readonly<Record<string, string | number | boolean | null | undefined | Listener>>;

const SVG = "http://www.w3.org/2000/svg";

/** An element of HTML: `h("button", { class: "ll-button", onclick: act }, "words")`. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes?: Attributes | null,
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  return finished(document.createElement(tag), attributes, children);
}

/** An element of SVG. */
export function s<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes?: Attributes | null,
  ...children: Child[]
): SVGElementTagNameMap[K] {
  return finished(document.createElementNS(SVG, tag) as SVGElementTagNameMap[K], attributes, children);
}

/** A division, by its classes. */
export function div(classes: string, ...children: Child[]): HTMLDivElement {
  return h("div", { class: classes }, children);
}

/** Words of a class, or of none. */
export function span(classes: string, ...children: Child[]): HTMLSpanElement {
  return h("span", classes ? { class: classes } : null, children);
}

/** Put children in place of those that are there. */
export function fill<E extends Element>(host: E, ...children: Child[]): E {
  host.replaceChildren(...flat(children));
  return host;
}

/** Say some words in an element, in place of those it has: what has not changed is not laid out again. */
export function say(host: Element, words: string): void {
  const text = host.firstChild;
  if (!(text instanceof Text) || text.nextSibling) host.textContent = words;
  else if (text.data !== words) text.data = words;
}

/** Set attributes (null, undefined and false take one away), or listen, where a value is a function. */
export function set<E extends Element>(element: E, attributes: Attributes): E {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value as EventListener);
    else if (value === null || value === undefined || value === false) element.removeAttribute(name);
    // The attribute would be refused where a page allows no inline styles.
    else if (name === "style") (element as unknown as HTMLElement).style.cssText = String(value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  return element;
}

/** A button; its title says what it does, and is its name where its words are a sign. */
export function button(words: Child, title: string, act: (event: MouseEvent) => void, more?: Attributes): HTMLButtonElement {
  return h("button", { type: "button", class: "ll-button", title, "aria-label": /\w\w/.test(String(words)) ? null : title, onclick: act, ...more }, words);
}

/** A link to something in the picture: a button that looks like text. */
export function link(words: Child, act: () => void, more?: Attributes): HTMLButtonElement {
  return h("button", { type: "button", class: "ll-link", onclick: act, ...more }, words);
}

function finished<E extends Element>(element: E, attributes: Attributes | null | undefined, children: Child[]): E {
  if (attributes) set(element, attributes);
  if (children.length) element.append(...flat(children));
  return element;
}

function flat(children: readonly Child[]): (Node | string)[] {
  const found: (Node | string)[] = [];
  for (const child of children) {
    if (Array.isArray(child)) found.push(...flat(child as readonly Child[]));
    else if (child === null || child === undefined || child === false) continue;
    else found.push(child instanceof Node ? child : String(child));
  }
  return found;
}
