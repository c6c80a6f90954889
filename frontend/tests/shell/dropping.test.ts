// @vitest-environment jsdom
// Files that are dropped, or chosen: sent in pieces, opened as another run, or refused in a sentence.

import { beforeEach, expect, test, vi } from "vitest";
import { Store } from "../../src/data/store";
import { type Live, withoutKernel } from "../../src/data/live";
import { dropping, openButton, PIECE } from "../../src/shell/dropping";
import { SIMPLE } from "../graphs";
import { made } from "../made";

// jsdom's files cannot be read in this way yet.
Blob.prototype.arrayBuffer ??= function (this: Blob) {
  return new Promise((read) => {
    const reader = new FileReader();
    reader.onload = () => read(reader.result as ArrayBuffer);
    reader.readAsArrayBuffer(this);
  });
};

let root: HTMLElement, host: HTMLElement, store: Store, said: string[];

beforeEach(() => {
  host = document.createElement("div");
  root = document.createElement("div");
  root.append(host);
  document.body.replaceChildren(root);
  store = new Store(made(SIMPLE));
  said = [];
  store.on("said", (sentence) => void said.push(sentence));
});

function drag(type: string, ...files: File[]): DragEvent {
  const event = new Event(type, { bubbles: true, cancelable: true }) as DragEvent;
  Object.defineProperty(event, "dataTransfer", { value: { types: files.length ? ["Files"] : ["text/plain"], files } });
  root.dispatchEvent(event);
  return event;
}

function live(ask: Live["ask"]): Live {
  return { ...withoutKernel(), hasKernel: true, ask };
}

test("a file goes in pieces, and what it holds is gone to", async () => {
  const asked: unknown[] = [];
  const file = new File([new Uint8Array(PIECE + 3)], "model.onnx");
  dropping(store, root, host, live(async (what, body, data) => {
    asked.push([what, body?.["name"], body?.["at"], data?.byteLength]);
    return asked.length === 2 ? { run: 0, text: "model.onnx is open beside the others: model" } : {};
  }));
  drag("dragenter", file);
  expect(root.classList.contains("ll-over")).toBe(true);
  expect(drag("dragover", file).defaultPrevented).toBe(true);
  drag("drop", file);
  expect(root.classList.contains("ll-over")).toBe(false);
  await vi.waitFor(() => expect(said.at(-1)).toBe("model.onnx is open beside the others: model"));
  expect(asked).toEqual([["drop", "model.onnx", 0, PIECE], ["drop", "model.onnx", PIECE, 3]]);
});

test("what cannot be opened is said above the picture, until that is closed", async () => {
  dropping(store, root, host, live(() => Promise.reject(new Error("open: notes.txt is nothing that is known here"))));
  drag("drop", new File(["x"], "notes.txt"));
  await vi.waitFor(() => expect(root.querySelector("[role=alert]")?.textContent).toContain("notes.txt is nothing that is known here"));
  root.querySelector<HTMLElement>("[role=alert] button")!.click();
  expect(root.querySelector("[role=alert]")).toBeNull();
});

test("text that is dragged is left alone, and so are files where nobody could open them", () => {
  const stop = dropping(store, root, host, live(() => Promise.reject(new Error("not asked"))));
  expect(drag("drop").defaultPrevented).toBe(false);
  stop();
  expect(drag("drop", new File(["x"], "a")).defaultPrevented).toBe(false);
  dropping(store, root, host, withoutKernel());
  expect(drag("drop", new File(["x"], "a")).defaultPrevented).toBe(false);
  expect(openButton(withoutKernel())).toBeNull();
});

test("a button asks for a file", () => {
  const on = live(() => Promise.reject(new Error("not asked")));
  dropping(store, root, host, on);
  const clicked = vi.spyOn(HTMLInputElement.prototype, "click").mockImplementation(() => undefined);
  host.append(openButton(on)!);
  host.querySelector("button")!.click();
  expect(clicked).toHaveBeenCalledOnce();
  clicked.mockRestore();
});
