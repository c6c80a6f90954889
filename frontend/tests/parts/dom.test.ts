// @vitest-environment jsdom
// Elements in one call, and texts that stay texts.

import { expect, test, vi } from "vitest";
import { button, fill, h, link, s, say, set } from "../../src/parts/dom";

test("attributes, listeners and children of any kind", () => {
  const clicked = vi.fn();
  const made = h("div", { class: "ll-a", hidden: true, title: null, "data-n": 3, onclick: clicked, style: "top:4px" }, "a", null, false, 0, [h("b", null, "c"), ["d"]]);
  expect(made.outerHTML).toBe('<div class="ll-a" hidden="" data-n="3" style="top: 4px;">a0<b>c</b>d</div>');
  made.click();
  expect(clicked).toHaveBeenCalledOnce();
});

test("what looks like markup is text", () => {
  const evil = '<img src=x onerror="alert(1)">';
  const made = h("p", { title: evil }, evil);
  expect(made.childElementCount).toBe(0);
  expect(made.textContent).toBe(evil);
  expect(s("title", null, evil).childElementCount).toBe(0);
});

test("attributes are taken away, children replaced", () => {
  const made = h("p", { hidden: true }, "before");
  set(made, { hidden: false });
  expect(fill(made, "after", h("i")).outerHTML).toBe("<p>after<i></i></p>");
});

test("buttons say what they do, and send no form", () => {
  const acted = vi.fn();
  const made = button("+", "Closer", acted, { disabled: false });
  expect([made.type, made.title, made.getAttribute("aria-label"), made.textContent]).toEqual(["button", "Closer", "Closer", "+"]);
  made.click();
  link("x", acted).click();
  expect(acted).toHaveBeenCalledTimes(2);
});

test("words that are said again stay the text they are", () => {
  const made = h("p"), words = (): ChildNode => made.firstChild!;
  say(made, "0.5");
  const first = words();
  say(made, "0.7");
  expect([words() === first, made.textContent]).toEqual([true, "0.7"]);
  const changes = new MutationObserver(() => undefined);
  changes.observe(made, { characterData: true, childList: true, subtree: true });
  say(made, "0.7");
  expect(changes.takeRecords()).toEqual([]);
  fill(made, h("b", null, "wrong"), "!");
  say(made, "0.7");
  expect(made.innerHTML).toBe("0.7");
});
