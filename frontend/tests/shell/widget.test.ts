// @vitest-environment jsdom
// The widget: one store for all views of a model, in step with Python, and errors where the reader sees them.

import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { start } from "../../src/shell/page";
import made from "../../src/shell/widget";
import { FakeModel } from "../fakemodel";
import { SIMPLE } from "../graphs";
import { madeBytes } from "../made";

const BYTES = madeBytes(SIMPLE);
const settled = () => new Promise((done) => setTimeout(done, 20));

function modelOf(more: Record<string, unknown> = {}): FakeModel {
  return new FakeModel({ data: new DataView(BYTES.buffer), what: "explorer", selection: {}, place: {}, options: {}, ...more });
}

async function shown(model: FakeModel, views = 1) {
  const widget = made();
  const dispose = widget.initialize({ model });
  const hosts = Array.from({ length: views }, () => document.createElement("div"));
  document.body.append(...hosts);
  const ends = hosts.map((el) => widget.render({ model, el }));
  await settled();
  return { hosts, ends, dispose };
}

beforeEach(() => document.body.replaceChildren());
afterEach(() => vi.restoreAllMocks());

test("it begins where Python says, and tells Python where that is", async () => {
  const model = modelOf({ place: { stage: 1 }, selection: { kind: "node", ids: [5], stage: 1 } });
  const { hosts } = await shown(model);
  expect(hosts[0]!.querySelector(".ll-side h2")!.textContent).toBe("%5 · mul");
  expect(model.saved).toEqual([["place", { run: 0, stage: 1, firing: -1 }]]);
});

test("a selection goes to Python once, and comes from Python without going back", async () => {
  const model = modelOf();
  const { hosts } = await shown(model, 2);
  model.saved.length = 0;
  hosts[0]!.querySelector<HTMLElement>(".ll-side .ll-link")!.click();
  const selected = { kind: "node", stage: 3, ids: [7] };
  expect(model.saved).toEqual([["selection", selected]]);
  // Both views have it.
  for (const host of hosts) expect(host.querySelector(".ll-side h2")!.textContent).toBe("%7 · call");
  model.fromPython("selection", { stage: 3, ids: [1], kind: "node" });
  expect(hosts[1]!.querySelector(".ll-side h2")!.textContent).toBe("%x · input");
  model.fromPython("selection", {});
  expect(hosts[1]!.querySelector(".ll-side h2")!.textContent).toBe("simple");
  expect(model.saved).toHaveLength(1);
});

test("large type is there and gone again, whatever was selected meanwhile", async () => {
  const model = modelOf({ what: "workbench" });
  const { hosts } = await shown(model);
  const root = hosts[0]!.querySelector<HTMLElement>(".ll-root")!, press = (key: string) => root.querySelector(".ll-graph")!.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  press("P");
  model.fromPython("selection", { stage: 3, ids: [1], kind: "node" });
  press("P");
  expect(root.classList.contains("ll-projector")).toBe(false);
  expect([root.querySelectorAll("[role=alert]").length, root.querySelectorAll(".ll-bench").length]).toEqual([0, 1]);
});

test("a selection that the graph does not have selects nothing", async () => {
  const model = modelOf();
  const { hosts } = await shown(model);
  model.fromPython("selection", { kind: "node", stage: 3, ids: [99] });
  expect(hosts[0]!.querySelector(".ll-side h2")!.textContent).toBe("simple");
});

test("what was not sent at first is asked for once something is painted", async () => {
  const model = modelOf({ data: new DataView(madeBytes({ ...SIMPLE, only: 1 }).buffer), place: { stage: 1 } });
  await shown(model);
  await settled();
  expect(model.sent).toEqual([{ ask: "rest", request: 1 }]);
  model.fromPython("place", { run: 0, stage: 3, firing: -1 });
  model.fromPython("data", new DataView(BYTES.buffer));
  await settled();
  expect(model.get("place")).toEqual({ run: 0, stage: 3, firing: -1 });
  const whole = modelOf();
  await shown(whole);
  await settled();
  expect(whole.sent).toEqual([]);
});

test("another place and another bundle come from Python", async () => {
  const model = modelOf();
  const { hosts } = await shown(model);
  model.fromPython("place", { run: 0, stage: 0, firing: -1 });
  expect(hosts[0]!.querySelector(".ll-side p")!.textContent).toContain("5 nodes as written");
  model.fromPython("data", new DataView(madeBytes({ ...SIMPLE, title: "another" }).buffer));
  await settled();
  expect(hosts[0]!.querySelector(".ll-side h2")!.textContent).toBe("another");
});

test("an overlay of Python's is shown, changed and taken away", async () => {
  const model = modelOf({ options: { overlay: { title: "mine", values: { 7: 2 }, texts: { 7: "two" } } } });
  const { hosts } = await shown(model);
  expect(hosts[0]!.querySelector(".ll-legend strong")!.textContent).toBe("mine");
  model.fromPython("options", { overlay: null });
  expect(hosts[0]!.querySelector(".ll-legend")).toBe(null);
});

test("the picture above is hidden while any view lives", async () => {
  const picture = document.createElement("img"), other = document.createElement("img");
  picture.dataset["llFor"] = "picture 1";
  other.dataset["llFor"] = "picture 2";
  document.body.append(picture, other);
  const { ends } = await shown(modelOf({ picture: "picture 1" }), 2);
  expect([picture.style.display, other.style.display]).toEqual(["none", ""]);
  ends[0]!();
  expect(picture.style.display).toBe("none");
  ends[1]!();
  expect(picture.style.display).toBe("");
});

test("data that cannot be read is a sentence in the widget", async () => {
  const { hosts } = await shown(modelOf({ data: new DataView(new ArrayBuffer(3)) }));
  expect(hosts[0]!.querySelector("[role=alert]")!.textContent).toBe("This is not the data of a picture: it does not begin with LLAB.");
});

test("when it is over, nothing listens", async () => {
  const model = modelOf();
  const { ends, hosts, dispose } = await shown(model);
  ends[0]!();
  dispose();
  expect([model.listening, hosts[0]!.childElementCount]).toEqual([0, 0]);
});

describe("a page", () => {
  const page = (what: string, bytes: Uint8Array) => {
    const host = document.createElement("div"), data = document.createElement("script"), picture = document.createElement("div");
    host.id = "ll-page";
    host.dataset["what"] = what;
    data.id = "ll-data";
    data.type = "text/plain";
    data.textContent = `\n${btoa(String.fromCharCode(...bytes))}\n`;
    picture.dataset["llStatic"] = "";
    document.body.append(picture, host, data);
    return { host, picture };
  };

  test("it opens the data that it finds, without a kernel, and hides the picture", async () => {
    const { host, picture } = page("explorer", BYTES);
    start();
    await settled();
    expect(host.querySelector(".ll-page .ll-side h2")!.textContent).toBe("simple");
    expect(picture.hidden).toBe(true);
    expect(document.activeElement!.closest(".ll-root")).not.toBe(null);
  });

  test("it says what is wrong with its data", async () => {
    const { host, picture } = page("workbench", BYTES.slice(0, 40));
    start();
    await settled();
    expect(host.querySelector("[role=alert]")!.textContent).toBe("The data of this picture is damaged: it ends within its header.");
    expect(picture.hidden).toBe(false);
  });

  test.each(["?", "{}"])("what is no base64, or no state, is said, too: %s", async (state) => {
    const { host } = page("workbench", BYTES);
    host.dataset["state"] = state;
    if (state === "{}") document.getElementById("ll-data")!.textContent = "no base64!";
    start();
    await settled();
    expect(host.querySelector("[role=alert]")!.textContent).toBe("The data of this picture is damaged: the page was cut off, or changed.");
  });

  test("nothing happens in a document without data", async () => {
    start();
    await settled();
    expect(document.querySelector(".ll-root")).toBe(null);
  });

  test("a workbench is opened, too", async () => {
    const { host } = page("workbench", BYTES);
    host.dataset["theme"] = "dark";
    start();
    await settled();
    expect(host.querySelector(".ll-root.ll-dark .ll-bench")).not.toBe(null);
  });
});
