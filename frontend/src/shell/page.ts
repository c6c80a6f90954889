// A page that was exported: its data stands in the document, and no kernel answers.

import { button, fill, h } from "../parts/dom";
import { damaged } from "../data/columns";
import { decode } from "../data/bundle";
import { throughServer, withoutKernel, type Live } from "../data/live";
import { Machine } from "../data/machine";
import { Store } from "../data/store";
import { followFragment } from "./links";
import { content, shell, type State, type What } from "./shell";

/** Open what a page holds: `<div id="ll-page" data-what=…>` and `<script type="text/plain" id="ll-data">`. */
export function start(): void {
  const host = document.getElementById("ll-page"), data = document.getElementById("ll-data");
  if (!host || !data || host.childElementCount) return;
  data.remove();
  const computes = document.getElementById("ll-run")?.textContent ?? "";
  document.getElementById("ll-run")?.remove();
  const { what, theme, state, served } = host.dataset;
  void open(host, data.textContent ?? "", computes, (what ?? "workbench") as What, theme ?? "auto", state ?? "{}", served !== undefined);
}

async function open(host: HTMLElement, text: string, computes: string, what: What, theme: string, state: string, isServed: boolean): Promise<void> {
  let given: Awaited<ReturnType<typeof content>>, story: unknown, machine: Machine | null = null;
  try {
    const bytes = bytesOf(text);
    // It is read; it runs when somebody says so.
    if (computes) machine = await Machine.read(bytesOf(computes));
    const began = JSON.parse(state) as State;
    story = began.story;
    given = await content(bytes, what, began);
  } catch {
    given = damaged("the page was cut off, or changed");
  }
  // Where it cannot be read the picture stays.
  if (!(given instanceof Error)) for (const one of document.querySelectorAll<HTMLElement>("[data-ll-static]")) one.hidden = true;
  // What a link says is where it begins, and what is wrong with one is said above the picture.
  const note = h("div");
  if (given instanceof Store) followFragment(given, (sentence) => void fill(note, h("p", { class: "ll-sorry", role: "alert" }, `${sentence} `, button("×", "close", () => fill(note)))));
  shell(host, given, { what, theme, live: isServed && given instanceof Store ? served(given) : withoutKernel(machine), isPage: true, story });
  host.querySelector(".ll-host")?.prepend(note);
}

function bytesOf(text: string): Uint8Array {
  const signs = atob(text.trim()), bytes = new Uint8Array(signs.length);
  for (let at = 0; at < bytes.length; at++) bytes[at] = signs.charCodeAt(at);
  return bytes;
}

/** Whoever serves the page answers; what changes there is shown. */
function served(store: Store): Live {
  return throughServer((bytes) =>
    decode(bytes).then(
      (bundle) => store.setBundle(bundle),
      (error: unknown) => store.say(error instanceof Error ? error.message : String(error)),
    ),
  );
}
