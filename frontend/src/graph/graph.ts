// The picture of a graph that one can move in, by hand and by keys.

import { around, beyond, centred, densest, fitted, fromTop, gestures, moved, NEAREST, seen, towards, zoomed, type Camera } from "./camera";
import { h, s, set } from "../parts/dom";
import { listen } from "../parts/keys";
import { comfortable, fontFit, levelAt, readable } from "./lod";
import { dashes, lengthOf, litOf, marksOf, ringsOf } from "./marks";
import { minimap } from "./minimap";
import { drift, isStill } from "./motion";
import { amountOf, nameOf, toldOf } from "./naming";
import { LONGER, painter, SHORT, type Sight } from "./painter";
import { Presence } from "../data/presence";
import { beside, route } from "./routes";
import { sceneOf, type Rect, type Scene } from "./scene";
import { drawStubs, stubsOf, thingsOf } from "./stubs";
import type { Pane, Selected, Side, Store } from "../data/store";
import type { Places } from "../data/view";
import { css, typeScale } from "../parts/styles";

css`
.ll-graph { position: relative; flex: 1 1 0; width: 100%; height: 100%; min-height: 0; min-width: 0; overflow: hidden; background: var(--ll-ground); cursor: grab; touch-action: none; user-select: none; }
.ll-root:not(.ll-page, :focus-within) .ll-graph { touch-action: pan-y; }
.ll-graph.ll-moving { cursor: grabbing; }
.ll-graph.ll-over { cursor: pointer; }
/* An outline of its own would lie under what is drawn. */
.ll-root .ll-graph:focus-visible { outline: none; } .ll-graph:focus-visible::after { content: ""; position: absolute; inset: 0; border: 2px solid var(--ll-accent); pointer-events: none; }
.ll-cursor path { fill: none; stroke: var(--ll-accent); stroke-width: 2px; stroke-dasharray: 2 3; vector-effect: non-scaling-stroke; visibility: hidden; }
.ll-graph:focus-visible .ll-cursor path { visibility: visible; }
`;

export interface GraphOptions {
  /** Which graph of a pass is shown. */
  readonly side: Side;
  readonly minimap?: boolean;
  /** Whether nothing moves that both graphs of a pass have: each has places of its own otherwise. */
  readonly isFixed?: boolean;
  /** Somebody chose a thing by a tap, Enter or Space; keys that go from thing to thing only select. */
  pick?(what: Selected): void;
}

export interface GraphView extends Pane {
  readonly element: HTMLElement;
  /** How much of the graph is shown, in words, for whoever has a place for them. */
  readonly amount: HTMLElement;
  /** Where one looks from; setting it tells nobody, so that pictures can move together. */
  camera: Camera;
  /** Listen to who moves this picture itself; returns how to stop. */
  onCamera(listener: (camera: Camera) => void): () => void;
  /** All of it, or as much as one can read of what tells most. */
  fit(): void;
  zoom(factor: number): void;
  /** Show a row, or a box by its path: boxes that hide it open, and it comes into sight, beside what lies over the picture. */
  focus(what: number | string, cover?: DOMRect): void;
  /** Draw now what waits for its time, for who takes a picture of it. */
  flush(): void;
}

/** Of more than so many that are selected not all are brought into sight at first. */
const FEW = 12;
/** After so many milliseconds without a move stubs are drawn. */
const PAUSE = 40;
/** Milliseconds between two taps that are one double tap. */
const DOUBLE = 400;
let made = 0;

export function graphView(store: Store, host: HTMLElement, options: GraphOptions): GraphView {
  const { side, pick } = options, type = typeScale(host), largest = NEAREST * type;
  const view = store.run.viewOf(store.place.stage);
  // What is selected when one begins is not behind a closed box.
  if (store.selected?.kind === "node" && store.selected.ids.length <= FEW) {
    const rows = store.selected.ids.map((id) => store.run.alive(store.place.stage).row(id)).filter((row) => row >= 0);
    const boxes = rows.map((row) => view.thingOf(row)).filter((thing) => thing >= 0).flatMap((thing) => view.above(thing));
    if (boxes.length) store.setOpen(new Set([...store.open, ...boxes.map((box) => view.box(box)!.path)]));
  }
  /** Whose places things have: from firing to firing nothing moves. */
  const places = (): Places => {
    const { run, place: { stage, firing } } = store, { effect } = run.stages[stage]!;
    if (options.isFixed || side === "both") return "both";
    return !effect ? "after" : side === "before" ? side : firing < 0 ? "after" : "both";
  };
  const now: Sight = {
    scene: sceneOf(view, store.open, places()), there: new Presence(store.run, store.place, side), level: levelAt(1), type, overlay: store.overlay,
    camera: { x: 0, y: 0, scale: 1 }, size: { width: 0, height: 0 },
  };
  const paint = painter(now, () => mark());
  const hovering = s("path", { class: "ll-at" }), ring = s("path"), marks = s("g");
  const cursorElement = s("g", { id: `ll-cursor-${++made}`, class: "ll-cursor", role: "img" }, ring);
  paint.over.append(s("g", { class: "ll-marks", "aria-hidden": "true" }, marks, hovering), cursorElement);
  const map = options.minimap === false ? null : minimap((x, y) => go(centred({ x, y, width: 0, height: 0 }, now.size, now.camera.scale)));
  const amount = h("span", { class: "ll-extent" }), stubs = h("div", { class: "ll-stubs" });
  const element = h(
    "div",
    { class: "ll-graph", tabindex: 0, role: "application", "aria-roledescription": "graph", "aria-activedescendant": cursorElement.id },
    paint.sheet, stubs, map?.element,
  );
  const listeners = new Set<(camera: Camera) => void>();
  /** The thing that the keyboard is at, and the one under the pointer; -1 for none. */
  let cursor = -1, over = -1;
  /** Whether the camera is as `fit` left it. */
  let isFitting = false, known: { readonly about: readonly unknown[]; readonly camera: Camera } | null = null;
  let lastTap = { thing: -1, time: 0 }, flight = 0, pause = 0;

  // -- the camera ---------------------------------------------------------------------------------

  /** What there is to see: in a pass all of both graphs, else what is there. */
  const whole = (): Rect => {
    const { scene, there } = now, { root, view } = scene;
    // What has places of its own is all there.
    const here = [...Array(view.frame.things[1]).keys()].filter((thing) => there.has(thing));
    const isPart = places() === "both" && !there.isOwn && here.length && here.length < view.frame.things[1]!;
    const { x, y, width, height } = isPart ? around(here.map((thing) => root.rect(thing))) : { x: 0, y: 0, width: scene.width, height: scene.height };
    return { x: x - 8, y: y - 8, width: width + 16, height: height + 16 };
  };
  /** Where things are that one sees, from above. */
  const rectsOf = (things: Iterable<number>): Rect[] => {
    const { scene, there } = now;
    return [...things].filter((thing) => scene.isVisible(thing) && !scene.isOpen(thing) && there.has(thing)).map((thing) => scene.rect(thing)!).sort((one, other) => one.y - other.y);
  };
  /** Where that is which a pass changed. */
  const changedRects = (): Rect[] => (now.there.isOwn ? rectsOf(now.scene.frames.flatMap(({ frame }) => now.scene.view.changedIn(frame))) : []);
  /** Where that is which the last firing took or made. */
  const firedRects = (): Rect[] => {
    const { run, place: { stage, firing } } = store;
    if (firing < 1 || !now.there.isOwn) return [];
    const rows = [...run.firings(stage).gone(firing - 1), ...run.firings(stage).fresh(firing - 1)];
    return rectsOf(new Set(rows.map((row) => now.scene.standing(row)).filter((thing) => thing >= 0)));
  };
  /** Some of what changed is in sight, from wherever one looked. */
  const meeting = (camera: Camera, changed: readonly Rect[]): Camera => {
    const rects = now.size.width ? changed : [], area = seen(camera, now.size);
    const isIn = ({ x, y, width, height }: Rect): boolean => x + width > area.x && x < area.x + area.width && y + height > area.y && y < area.y + area.height;
    return !rects.length || rects.some(isIn) ? camera : towards(around(densest(rects, now.size, camera.scale)), whole(), now.size, camera.scale);
  };
  /** Where one sees as much as one can read; found anew where the picture is another. */
  const fitCamera = (): Camera => {
    const about = [now.scene, now.there, now.size, store.selected];
    if (!known || about.some((one, at) => one !== known!.about[at])) known = { about, camera: readableCamera() };
    return known.camera;
  };
  /** All, or all of the width, or what tells most. */
  const readableCamera = (): Camera => {
    const { size, scene } = now, all = whole(), least = readable(type), entire = fitted(all, size, largest);
    if (entire.scale >= least) return entire;
    const chosen = rectsOf(litOf(store, now).strong);
    if (chosen.length) return towards(around(chosen), all, size, comfortable(type));
    const wide = fromTop(all, size, comfortable(type)), scale = Math.max(least, wide.scale);
    const fired = firedRects(), changed = fired.length ? fired : changedRects();
    if (changed.length) return towards(around(densest(changed, size, scale)), all, size, scale);
    if (wide.scale >= least) return wide;
    const [first] = rectsOf(scene.frames.flatMap(({ frame }) => scene.thingsIn(frame)));
    return first ? towards(first, all, size, scale) : wide;
  };
  const tell = (): void => {
    for (const listener of [...listeners]) listener(now.camera);
  };
  const look = (camera: Camera): void => {
    now.camera = camera;
    paint.move();
    map?.look(camera, now.size);
    stubSoon();
  };
  /** Where wires leave the screen is said once it stands still: at once where no hand is moving it. */
  const stubSoon = (wait = PAUSE): void => {
    if (stubs.childElementCount) stubs.replaceChildren();
    clearTimeout(pause);
    pause = setTimeout(stub, wait) as unknown as number;
  };
  const stub = (): void => {
    clearTimeout(pause);
    paint.name();
    // Far out things have no words that it could cover.
    map?.stand(now.level.detail ? thingsOf(now) : [], now.size);
    drawStubs(stubs, stubsOf(now), now, map ? [placeIn(element, map.element)] : [], (thing) => {
      element.focus({ preventScroll: true });
      moveTo(thing);
    });
  };
  const stay = (): void => {
    cancelAnimationFrame(flight);
    isFitting = false;
  };
  /** Look from elsewhere at once, as a hand wants it. */
  const go = (camera: Camera): void => {
    stay();
    look(camera);
    tell();
  };
  /** Get there in a moment, unless one does not want to see things move. */
  const fly = (to: Camera): void => {
    cancelAnimationFrame(flight);
    const from = now.camera, start = performance.now(), { width, height } = now.size;
    const step = (time: number): void => {
      const share = isStill() || paint.isEmpty ? 1 : Math.min(1, Math.max(0, time - start) / SHORT), eased = 1 - (1 - share) ** 3;
      const scale = from.scale * (to.scale / from.scale) ** eased;
      // The middle of the screen goes straight from what it shows to what it is to show.
      const weight = to.scale === from.scale ? eased : (1 / from.scale - 1 / scale) / (1 / from.scale - 1 / to.scale);
      const between = (middle: number, one: number, other: number): number => {
        const first = (middle - one) / from.scale;
        return middle - (first + ((middle - other) / to.scale - first) * weight) * scale;
      };
      look(share === 1 ? to : { scale, x: between(width / 2, from.x, to.x), y: between(height / 2, from.y, to.y) });
      tell();
      if (share < 1) flight = requestAnimationFrame(step);
      else stubSoon(0);
    };
    step(start);
  };
  const fit = (): void => {
    isFitting = true;
    fly(fitCamera());
  };
  const onScreen = (x: number, y: number): [number, number] => [x * now.camera.scale + now.camera.x, y * now.camera.scale + now.camera.y];
  const isOnScreen = (x: number, y: number, border = 0): boolean =>
    x >= border && y >= border && x <= now.size.width - border && y <= now.size.height - border;
  const middleOf = (thing: number): [number, number] => {
    const { x, y, width, height } = now.scene.rect(thing)!;
    return [x + width / 2, y + height / 2];
  };
  const zoom = (factor: number): void => {
    const at = cursor < 0 ? null : onScreen(...middleOf(cursor));
    const [x, y] = at && isOnScreen(...at) ? at : [now.size.width / 2, now.size.height / 2];
    isFitting = false;
    fly(zoomed(now.camera, factor, x, y));
  };
  /** Pan just so far that a thing is well in sight. */
  const bring = (thing: number): void => {
    const rect = now.scene.rect(thing), { size, camera } = now;
    if (!rect || !size.width) return;
    const [x, y] = onScreen(rect.x, rect.y);
    const by = (start: number, length: number, room: number): number => {
      const border = Math.min(60, room / 6), after = room - border - start - length;
      return start < border ? border - start : after >= 0 ? 0 : Math.max(after, border - start);
    };
    const [byX, byY] = [by(x, rect.width * camera.scale, size.width), by(y, rect.height * camera.scale, size.height)];
    if (byX || byY) {
      isFitting = false;
      fly(moved(camera, byX, byY));
    }
  };
  const focus = (what: number | string, cover?: DOMRect): void => {
    const { view } = now.scene, thing = typeof what === "number" ? view.thingOf(what) : view.thingAt(what);
    if (thing < 0 || !now.there.has(thing)) return;
    const open = new Set([...store.open, ...view.above(thing).map((box) => view.box(box)!.path)]);
    if (open.size !== store.open.size) store.setOpen(open);
    const rect = now.scene.rect(thing);
    if (!rect || !now.size.width) return;
    const isSmall = now.camera.scale < readable(type), room = beyond(element.getBoundingClientRect(), cover);
    const [x, y] = onScreen(...middleOf(thing)), half = Math.max(50, (rect.width * now.camera.scale) / 2);
    if (!isSmall && isOnScreen(x, y, 50) && (!cover || (x - half >= room.from && x + half <= room.to))) return;
    isFitting = false;
    fly(moved(centred(rect, { ...now.size, width: room.to - room.from }, isSmall ? comfortable(type) : now.camera.scale), room.from, 0));
  };
  const measure = (width: number, height: number): void => {
    const { size } = now;
    if (width === size.width && height === size.height) return;
    now.size = { width, height };
    if (!width || !height) return;
    if (paint.isEmpty) isFitting = true;
    look(isFitting ? fitCamera() : now.camera);
    if (isFitting) tell();
    paint.draw();
  };

  // -- what is shown ------------------------------------------------------------------------------

  /** What is to stay where it is: the box that opens or closes, what the keyboard is at, what is in the middle. */
  const anchor = (): { x: number; y: number; row: number; path: string } | null => {
    const { scene, camera, size } = now;
    const area = seen(camera, size), middle = [area.x + area.width / 2, area.y + area.height / 2] as const;
    const changed = [...store.open].filter((path) => !scene.open.has(path)).concat([...scene.open].filter((path) => !store.open.has(path)));
    const far = (one: number): number => Math.hypot(middleOf(one)[0] - middle[0], middleOf(one)[1] - middle[1]);
    const box = changed.length === 1 ? scene.view.thingAt(changed[0]!) : -1;
    const candidates = [box, cursor].filter((one) => one >= 0 && scene.isVisible(one));
    const thing = candidates[0] ?? nearest(scene.within(area), far);
    const rect = thing >= 0 ? scene.rect(thing) : null;
    if (!rect) return null;
    const [x, y] = onScreen(rect.x + rect.width / 2, rect.y);
    return { x, y, row: scene.view.thing.row[thing]!, path: scene.view.box(thing)?.path ?? "" };
  };

  /** The place, the open boxes or the data changed: the same picture at the same spot, as far as it can be. */
  const renew = (): void => {
    const before: Scene = now.scene, old = now.camera, kept = now.size.width ? anchor() : null;
    now.there = new Presence(store.run, store.place, side);
    const scene = (now.scene = sceneOf(now.there.view, store.open, places())), isOther = before.view !== scene.view, isLaidAnew = before.root !== scene.root;
    if (isOther) cursor = over = -1;
    let camera = old;
    if (isFitting && now.size.width && isLaidAnew) camera = fitCamera();
    else if (kept && isLaidAnew) {
      const thing = kept.row >= 0 ? scene.standing(kept.row) : scene.view.thingAt(kept.path);
      const rect = thing >= 0 ? scene.rect(thing) : null;
      if (rect) camera = { ...old, x: kept.x - (rect.x + rect.width / 2) * old.scale, y: kept.y - rect.y * old.scale };
    }
    if (isOther && places() !== "both") camera = meeting(camera, changedRects());
    else if (!isOther) camera = meeting(camera, firedRects());
    now.camera = camera;
    paint.draw();
    look(camera);
    stubSoon(0);
    if (!isOther && camera.scale === old.scale && !isStill()) paint.glide(before, (old.x - camera.x) / old.scale, (old.y - camera.y) / old.scale);
    // Another pass: its graph after comes of the one before, whatever was seen until now.
    else if (isOther && now.there.isOwn && places() === "after" && !isStill()) {
      const from = sceneOf(scene.view, store.open, "before");
      paint.glide(from, ...drift(from, scene), LONGER);
    }
    if (camera !== old) tell();
    selectionCame();
    describe();
  };
  const describe = (): void => {
    const { run, place } = store, stage = run.stages[place.stage]!, words = amountOf(now);
    amount.textContent = words;
    const which = { before: "before", after: "after", both: "before and after" }[side];
    element.setAttribute("aria-label", `Graph ${run.title}, ${place.stage ? `${which} ${stage.name || stage.title}` : "as written"}: ${words}`);
    map?.show(now.scene, now.there);
    map?.look(now.camera, now.size);
  };

  // -- what is selected ---------------------------------------------------------------------------

  const mark = (): void => {
    const apart = 4 + 1.5 / now.camera.scale;
    marks.replaceChildren(...marksOf(store, now, apart));
    const at = cursor < 0 ? [] : [cursor];
    set(ring, { d: ringsOf(now, at, apart + 3 / now.camera.scale), style: dashes(2, 3, lengthOf(now, at)) });
    markHover();
  };
  const markHover = (): void => {
    const { hovered, run, place } = store, { scene, there } = now;
    const rows = hovered?.kind === "node" ? hovered.ids.map((id) => there.rowOf(id))
      : hovered?.kind === "firing" && hovered.stage === place.stage ? [...run.firings(hovered.stage).gone(hovered.firing), ...run.firings(hovered.stage).fresh(hovered.firing)] : [];
    const things = new Set(rows.map((row) => (row < 0 ? -1 : scene.standing(row))));
    if (hovered?.kind === "scope") things.add(scene.view.thingAt(hovered.path));
    hovering.setAttribute("d", ringsOf(now, things, 2));
  };
  const selectionCame = (): void => {
    const { strong } = litOf(store, now), { scene, there } = now;
    // The keyboard goes on from what was selected elsewhere.
    if (strong.size === 1) [cursor] = strong as unknown as [number];
    if (cursor >= 0 && !(scene.isVisible(cursor) && there.has(cursor))) cursor = -1;
    set(cursorElement, { "aria-label": cursor < 0 ? "nothing selected" : nameOf(now, cursor) });
    mark();
  };
  /** What selecting a thing means for everybody. */
  const selectedOf = (thing: number): Selected => {
    const { run, place: { stage } } = store, row = now.there.row(thing);
    if (row < 0) return { kind: "scope", stage, path: now.scene.view.box(thing)!.path };
    return { kind: "node", stage: side === "before" ? Math.max(0, stage - 1) : run.homeOf(row, stage), ids: [run.id[row]!] };
  };
  const moveTo = (thing: number): void => {
    cursor = thing;
    store.select(selectedOf(thing));
    bring(thing);
    store.say(nameOf(now, thing));
  };
  /** Open or close a box; a node that is none does nothing. */
  const toggle = (thing: number): boolean => {
    const { scene } = now, path = scene.view.box(thing)?.path;
    if (path === undefined) return false;
    const isOpen = scene.isOpen(thing), open = new Set(store.open);
    if (isOpen) open.delete(path);
    else open.add(path);
    cursor = thing;
    isFitting = false;
    store.setOpen(open);
    bring(thing);
    store.say(`${isOpen ? "Closed" : "Opened"} ${nameOf(now, thing)}. ${amountOf(now)}`);
    return true;
  };

  // -- hands --------------------------------------------------------------------------------------

  const at = (x: number, y: number): number => {
    const { camera, scene, there } = now, thing = scene.hit((x - camera.x) / camera.scale, (y - camera.y) / camera.scale);
    return thing >= 0 && there.has(thing) ? thing : -1;
  };
  const tapped = (thing: number, event: PointerEvent): void => {
    element.focus({ preventScroll: true });
    const time = event.timeStamp, isDouble = lastTap.thing === thing && time - lastTap.time < DOUBLE;
    lastTap = { thing, time: isDouble ? 0 : time };
    if (thing < 0) return store.select(null);
    if (isDouble) return void toggle(thing);
    const chosen = selectedOf(thing), { selected } = store;
    cursor = thing;
    if ((event.shiftKey || event.ctrlKey || event.metaKey) && chosen.kind === "node" && selected?.kind === "node" && selected.stage === chosen.stage) {
      const ids = new Set(selected.ids), [id] = chosen.ids;
      if (!ids.delete(id!)) ids.add(id!);
      store.select(ids.size ? { ...selected, ids: [...ids] } : null);
    } else store.select(chosen);
    pick?.(chosen);
    store.say(nameOf(now, thing));
  };
  const pointed = (thing: number): void => {
    if (thing === over) return;
    over = thing;
    element.classList.toggle("ll-over", thing >= 0);
    paint.tooltip.textContent = thing < 0 ? "" : toldOf(now, thing);
    store.hover(thing < 0 ? null : selectedOf(thing));
  };
  /** From where the keyboard is to somewhere; at first to what is uppermost in sight. */
  const step = (find: (from: number) => number): void => {
    const { scene, there } = now;
    const isHere = (one: number) => there.has(one) && !scene.isOpen(one);
    const to = cursor < 0 ? nearest(scene.within(seen(now.camera, now.size)).filter(isHere), (one) => scene.rect(one)!.y) : find(cursor);
    if (to < 0) store.say("Nothing further there");
    else moveTo(to);
  };
  const along = (way: "up" | "down"): void =>
    step((from) => {
      const [x, y] = middleOf(from);
      return nearest(route(now.scene, now.there, from, way).things, (one) => Math.hypot(middleOf(one)[0] - x, (middleOf(one)[1] - y) / 2));
    });

  host.append(element);
  element.style.setProperty("--ll-fit", String(fontFit()));
  const stops = [
    listen(element, {
      source: () => along("up"),
      reader: () => along("down"),
      left: () => step((from) => beside(now.scene, now.there, from, "left")),
      right: () => step((from) => beside(now.scene, now.there, from, "right")),
      toggle: () => {
        if (cursor < 0) step(() => -1);
        else if (!toggle(cursor)) {
          moveTo(cursor);
          pick?.(selectedOf(cursor));
        }
      },
      outer: () => {
        const outer = cursor < 0 ? -1 : now.scene.view.frame.box[now.scene.view.thing.frame[cursor]!]!;
        if (outer >= 0) moveTo(outer);
        return outer >= 0;
      },
      fit,
      closer: () => zoom(1.4),
      further: () => zoom(1 / 1.4),
      actual: () => zoom(1 / now.camera.scale),
      escape: () => {
        // What colours the picture goes first.
        if (store.overlay || !store.selected) return false;
        store.select(null);
        return true;
      },
    }),
    gestures(element, {
      pan: (x, y) => go(moved(now.camera, x, y)),
      zoom: (factor, x, y) => go(zoomed(now.camera, factor, x, y)),
      tap: (x, y, event) => tapped(at(x, y), event),
      point: (x, y) => pointed(at(x, y)),
      leave: () => pointed(-1),
      // In a notebook the wheel scrolls on, until somebody has gone into the picture.
      wheels: (event) => event.ctrlKey || event.metaKey || !!element.closest(".ll-page, .ll-root:focus-within"),
    }),
    store.on("place", renew),
    store.on("open", renew),
    store.on("overlay", (overlay) => {
      now.overlay = overlay;
      paint.draw(true);
    }),
    store.on("selection", selectionCame),
    store.on("hover", markHover),
  ];
  if (typeof ResizeObserver === "undefined") measure(element.clientWidth || 800, element.clientHeight || 500);
  else {
    const observer = new ResizeObserver(([entry]) => entry && measure(entry.contentRect.width, entry.contentRect.height));
    observer.observe(element);
    stops.push(() => observer.disconnect());
    measure(element.clientWidth, element.clientHeight);
  }
  selectionCame();
  describe();

  return {
    element, amount, fit, zoom, focus,
    flush: () => {
      paint.flush();
      stub();
    },
    get camera() {
      return now.camera;
    },
    set camera(camera) {
      stay();
      look(camera);
      // A picture that another one led to where it would have gone itself goes there again.
      const own = fitCamera();
      isFitting = Math.abs(own.scale / camera.scale - 1) < 1e-6 && Math.abs(own.x - camera.x) < 1 && Math.abs(own.y - camera.y) < 1;
    },
    onCamera: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    dispose: () => {
      for (const stop of stops) stop();
      cancelAnimationFrame(flight);
      clearTimeout(pause);
      paint.dispose();
      amount.remove();
      element.remove();
    },
  };
}

/** The one for which a number is least; -1 of none. */
function nearest(things: readonly number[], far: (thing: number) => number): number {
  let found = -1, least = Infinity;
  for (const thing of things) {
    const away = far(thing);
    if (away < least) [found, least] = [thing, away];
  }
  return found;
}

/** Where an element stands in another. */
function placeIn(outer: Element, inner: Element): { left: number; top: number; right: number; bottom: number } {
  const from = outer.getBoundingClientRect(), { left, top, right, bottom } = inner.getBoundingClientRect();
  return { left: left - from.left, top: top - from.top, right: right - from.left, bottom: bottom - from.top };
}
