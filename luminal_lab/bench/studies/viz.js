// What viz.py puts into a page: when something was done, and when the last frame that it changed was there.
{
  const told = { acted: 0, drawn: 0, painted: 0, answered: 0, awaited: 0 };
  const host = () => document.querySelector(".ll-graph");
  const pause = (time) => new Promise((done) => setTimeout(done, time));
  const meets = (one, other) => one.right > other.left && one.left < other.right && one.bottom > other.top && one.top < other.bottom;

  window.bench = {
    told,

    /** All is drawn when nothing has changed for a while: milliseconds since the last key or click, and since the page began. */
    settled: async (quiet = 250) => {
      while (told.awaited || performance.now() - Math.max(told.acted, told.drawn) < quiet) await pause(20);
      return [Math.max(told.drawn, told.answered) - told.acted, told.drawn];
    },

    /** How many nodes and boxes one sees: near they have a path each, far out all of a kind are rectangles of one path. */
    items: () => {
      const here = host().getBoundingClientRect();
      let count = 0;
      for (const path of host().querySelectorAll(".ll-sheet path:is([fill$='-fill)'], [fill-opacity])")) {
        const far = [...path.getAttribute("d").matchAll(/M([-\d.]+) ([-\d.]+)h([\d.]+)v([\d.]+)h-[\d.]+z/g)];
        const { a, d, e, f } = path.getScreenCTM();
        for (const [x, y, width, height] of far.map((one) => one.slice(1).map(Number)))
          count += meets({ left: a * x + e, right: a * (x + width) + e, top: d * y + f, bottom: d * (y + height) + f }, here);
        if (!far.length) count += meets(path.getBoundingClientRect(), here);
      }
      return count;
    },

    /** Where the second line of a closed box is, well in sight. */
    box: () => {
      const { left, right, top, bottom } = host().getBoundingClientRect();
      const found = [...host().querySelectorAll(".ll-sheet .ll-below")]
        .filter((one) => /^[\d,]+ nodes?\b/.test(one.textContent))
        .map((one) => one.getBoundingClientRect())
        .find((one) => one.left > left + 9 && one.right < right - 9 && one.top > top + 30 && one.bottom < bottom - 9);
      return found ? [found.x + found.width / 2, found.y] : null;
    },

    /** A hand that drags the picture up and down and a little aside, by so many pixels a second and so far: frames a second, and the longest. */
    pan: async (seconds, speed, reach) => {
      const { x, y, width, height } = host().getBoundingClientRect(), times = [];
      const frame = () => new Promise(requestAnimationFrame), start = await frame();
      let last = start;
      while (last - start < 1000 * seconds) {
        const at = (last - start) / 1000, way = (at * speed) % (2 * reach);
        host().dispatchEvent(new PointerEvent("pointermove", {
          clientX: x + width / 2 + 200 * Math.sin(3 * at), clientY: y + height / 2 - Math.min(way, 2 * reach - way),
          pointerId: 1, pointerType: "mouse", isPrimary: true, button: -1, buttons: 1, bubbles: true,
        }));
        const now = await frame();
        times.push(now - last);
        last = now;
      }
      return [(1000 * times.length) / (last - start), Math.max(...times)];
    },
  };

  /** Take note of the next frame: a frame that is late is waited for. */
  const framed = () => {
    told.awaited++;
    requestAnimationFrame(() =>
      setTimeout(() => {
        told.awaited--;
        told.drawn = performance.now();
        if (!told.painted && document.querySelector(".ll-graph .ll-sheet path")) told.painted = told.drawn;
      }),
    );
  };
  new MutationObserver(framed).observe(document, { subtree: true, childList: true });
  for (const name of ["keydown", "pointerup"])
    addEventListener(
      name,
      ({ timeStamp }) => {
        told.acted = told.answered = timeStamp;
        framed();
      },
      true,
    );
  // As the browser itself counts, with what its compositor does.
  new PerformanceObserver((list) => {
    for (const { startTime, duration } of list.getEntries())
      if (startTime > told.acted - 1) told.answered = Math.max(told.answered, startTime + duration);
  }).observe({ type: "event", durationThreshold: 16 });
}
