// What a machine can see wrong in a picture that is on the screen; called with the picture's element.
//
// Each fault is a line "kind: what": letters over each other or over a node (overlap), what lies over a
// node (covers), text that its own box cuts (cut), a pane with nothing in it or too little room (empty),
// what sticks out sideways (outside), letters below nine pixels (small).
(root) => {
  const LEAST = 9;
  const found = new Set();
  const say = (kind, ...parts) => found.add(`${kind}: ${parts.join(" ")}`);
  const said = (text) => `"${text.replace(/\s+/g, " ").trim().slice(0, 48)}"`;
  const named = (one) => (one.getAttribute("class") || one.tagName).toString().split(" ").slice(0, 2).join(".");
  const isShown = (one) => one.checkVisibility({ visibilityProperty: true, opacityProperty: true, contentVisibilityAuto: true });
  const isUnseen = (one) => !!one.closest(".ll-unseen, style, script, title, desc, template, option, details:not([open]) > :not(summary)") || one.matches("details:not([open])");
  const meet = (a, b) => ({ left: Math.max(a.left, b.left), right: Math.min(a.right, b.right), top: Math.max(a.top, b.top), bottom: Math.min(a.bottom, b.bottom) });
  const width = (box) => box.right - box.left, height = (box) => box.bottom - box.top;
  const isArea = (box) => width(box) > 0 && height(box) > 0;
  const EVERYWHERE = { left: -1e9, right: 1e9, top: -1e9, bottom: 1e9 };

  /** What of an element's surroundings can be seen, and whether one can scroll to the rest. */
  const windows = new Map();
  const windowOf = (one) => {
    if (!one || one === root.parentElement) return { box: EVERYWHERE, scrolls: false };
    let known = windows.get(one);
    if (known) return known;
    const outer = windowOf(one.parentElement), style = getComputedStyle(one);
    known = outer;
    if (style.overflowX !== "visible" || style.overflowY !== "visible" || one.localName === "svg") {
      const all = one.getBoundingClientRect();
      const inner = one.localName === "svg" ? all
        : { left: all.left + one.clientLeft, top: all.top + one.clientTop, right: all.left + one.clientLeft + one.clientWidth, bottom: all.top + one.clientTop + one.clientHeight };
      const moves = outer.moves || one.classList.contains("ll-graph");
      known = { box: meet(outer.box, inner), moves, scrollsX: outer.scrollsX || /auto|scroll/.test(style.overflowX), scrollsY: outer.scrollsY || /auto|scroll/.test(style.overflowY) };
    }
    windows.set(one, known);
    return known;
  };

  // -- all text that is in sight ------------------------------------------------------------------

  const texts = [];
  const add = (element, text, box) => {
    const window = windowOf(element), seen = meet(box, window.box);
    if (isArea(seen)) texts.push({ element, text, box, seen, window });
  };
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.data.trim() || element.namespaceURI.endsWith("svg") || isUnseen(element) || !isShown(element)) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const box of range.getClientRects()) if (isArea(box)) add(element, node.data, box);
  }
  for (const element of root.querySelectorAll("svg text")) {
    if (!element.textContent.trim() || !isShown(element)) continue;
    add(element, element.textContent, element.getBoundingClientRect());
  }

  // -- letters that are too small -----------------------------------------------------------------

  for (const { element, text } of texts) {
    const scale = element.getScreenCTM?.().a ?? 1, size = parseFloat(getComputedStyle(element).fontSize) * scale;
    if (size < LEAST - 0.05) say("small", `${size.toFixed(1)}px`, said(text));
  }

  // -- text over text, and over nodes -------------------------------------------------------------

  /** What an element lies on if that hides what is below it: a box with a place and a ground of its own. */
  const layer = (one) => {
    for (let at = one; at && at !== root; at = at.parentElement) {
      const { position, backgroundColor } = getComputedStyle(at);
      if (/absolute|fixed|sticky/.test(position) && !/, 0\)|transparent/.test(backgroundColor)) return at;
    }
    return null;
  };
  const isOver = (a, b) => width(meet(a, b)) > 2 && height(meet(a, b)) > 0.35 * Math.min(height(a), height(b));
  texts.sort((a, b) => a.seen.top - b.seen.top);
  texts.forEach((one, at) => {
    for (let next = at + 1; next < texts.length && texts[next].seen.top < one.seen.bottom; next++) {
      const other = texts[next];
      if (one.element === other.element || !isOver(one.seen, other.seen) || layer(one.element) !== layer(other.element)) continue;
      say("overlap", said(one.text), "and", said(other.text));
    }
  });
  for (const bar of root.querySelectorAll(".ll-bar, .ll-tablist")) {
    const tools = [...bar.children].filter(isShown).map((one) => [one, one.getBoundingClientRect()]);
    tools.forEach(([one, a], at) => {
      for (const [other, b] of tools.slice(at + 1)) if (width(meet(a, b)) > 1 && height(meet(a, b)) > 1) say("overlap", "the tools", said(one.textContent), "and", said(other.textContent));
    });
  }
  for (const svg of root.querySelectorAll("svg")) {
    if (svg.parentElement.closest("svg") || !isShown(svg)) continue;
    // A node is an outline and its words; wires have words, too, but stand with all nodes in one group.
    const groups = [...svg.querySelectorAll("g")].filter((one) => one.querySelector(":scope > path") && one.querySelector(":scope > text:not(.ll-way)") && !one.querySelector("g"));
    const nodes = groups.map((group) => ({ group, text: group.querySelector(":scope > text").textContent, box: meet(group.querySelector(":scope > path").getBoundingClientRect(), windowOf(svg).box) })).filter(({ box }) => isArea(box));
    const graph = svg.closest(".ll-graph");
    for (const { element, text, seen } of texts) {
      if (element.ownerSVGElement !== svg) continue;
      for (const node of nodes) {
        if (node.group.contains(element)) {
          if (element === node.group.querySelector("text") && (width(node.box) > 20 && element.getBoundingClientRect().width > node.group.querySelector("path").getBoundingClientRect().width - 1)) say("overlap", said(text), "is wider than its node");
        } else if (width(meet(seen, node.box)) > 2 && height(meet(seen, node.box)) > 0.35 * height(seen)) say("overlap", said(text), "over the node", said(node.text));
      }
    }
    for (const cover of graph?.querySelectorAll(".ll-map, .ll-stubs > button") ?? []) {
      if (!isShown(cover) || (cover.localName === "button" && cover.textContent.length < 2)) continue;
      const box = cover.getBoundingClientRect();
      for (const node of nodes) if (width(meet(box, node.box)) > 1 && height(meet(box, node.box)) > 1) say("covers", named(cover), said(cover.textContent), "the node", said(node.text));
    }
  }

  // -- text that is cut ---------------------------------------------------------------------------

  const hasTitle = (one) => !!one.closest("[title]") && root.contains(one.closest("[title]"));
  for (const one of [root, ...root.querySelectorAll("*")]) {
    if (one.namespaceURI.endsWith("svg") || isUnseen(one) || one.closest("svg") || !isShown(one)) continue;
    const style = getComputedStyle(one);
    if (one.localName === "select") {
      const pen = document.createElement("canvas").getContext("2d");
      pen.font = style.font;
      const text = one.selectedOptions[0]?.textContent ?? "", room = one.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
      if (pen.measureText(text).width > room + 1 && !one.title) say("cut", "select", said(text));
    }
    if (one.matches("button, [role=tab], .ll-bar *") && style.overflowX === "visible" && one.clientWidth > 0 && one.scrollWidth > one.clientWidth + 1) say("cut", named(one), said(one.textContent), "is wider than its box");
    if (!one.textContent.trim() || !/hidden|clip/.test(style.overflowX) || one.clientWidth === 0 || one.matches(".ll-graph, .ll-stubs")) continue;
    if (one.scrollWidth > one.clientWidth + 1 && !(style.textOverflow === "ellipsis" && hasTitle(one))) {
      if ([...one.childNodes].some((child) => child.nodeType === 3 && child.data.trim()) || style.textOverflow === "ellipsis") say("cut", named(one), said(one.textContent));
    }
  }
  for (const { element, text, box, seen, window } of texts) {
    if (window.moves || (element.ownerSVGElement && window.scrollsX)) continue;
    const isEllipsis = getComputedStyle(element).textOverflow === "ellipsis" || element.closest(".ll-one");
    if (!window.scrollsX && !isEllipsis && width(box) - width(seen) > 2) say("cut", "sideways", said(text));
    if (!window.scrollsY && height(box) - height(seen) > 0.3 * height(box)) say("cut", "in its height", said(text));
  }

  // -- panes without contents, and what sticks out ------------------------------------------------

  for (const pane of root.querySelectorAll(".ll-area, .ll-half, .ll-graph, .ll-detail, [role=tabpanel]")) {
    if (!isShown(pane)) continue;
    const box = pane.getBoundingClientRect(), name = named(pane);
    if (box.width < 100 || box.height < 60) {
      if (!pane.matches(".ll-detail")) say("empty", name, "has only", `${Math.round(box.width)} × ${Math.round(box.height)} px`);
      continue;
    }
    const within = (one) => isArea(meet(one.getBoundingClientRect(), meet(box, windowOf(pane).box)));
    const things = pane.matches(".ll-graph") ? [...pane.querySelectorAll(".ll-sheet path")] : [...pane.querySelectorAll("svg, button, input, canvas, li, p, td, pre")];
    if (!things.some((one) => isShown(one) && within(one)) && !texts.some(({ element }) => pane.contains(element))) say("empty", name);
  }
  const edge = Math.min(root.getBoundingClientRect().right, innerWidth);
  for (const one of [root, ...root.querySelectorAll("*")]) {
    if (one.closest("svg") && one.localName !== "svg") continue;
    if (isUnseen(one) || !isShown(one)) continue;
    const box = meet(one.getBoundingClientRect(), windowOf(one.parentElement).box);
    if (isArea(box) && (box.right > edge + 1 || box.left < -1)) say("outside", named(one), said(one.textContent), `by ${Math.round(Math.max(box.right - edge, -box.left))}px`);
  }
  if (document.documentElement.scrollWidth > innerWidth + 1) say("outside", "the page", `by ${document.documentElement.scrollWidth - innerWidth}px`);
  return [...found];
}
