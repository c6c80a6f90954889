// A file that is dropped onto a picture, or chosen: it goes to the kernel in pieces, and opens as another run.

import type { Live, Reply } from "../data/live";
import type { Store } from "../data/store";
import { button, fill, h } from "../parts/dom";
import { css } from "../parts/styles";
import { tellButton } from "./help";

css`
.ll-lines { white-space: pre-line; }
.ll-over::after { content: "Drop a recording, a model or weights: it opens beside what is on show"; position: absolute; inset: 0; z-index: 20; display: flex; align-items: center; justify-content: center; padding: 24px; text-align: center; font-size: 16px; font-weight: 600; background: color-mix(in srgb, var(--ll-ground) 88%, transparent); outline: 2px dashed var(--ll-accent); outline-offset: -10px; pointer-events: none; }
`;

/** A notebook's messages have a limit, 10 MB where nobody has raised it. */
export const PIECE = 4 << 20;

/** Open files that are dropped onto a root; what goes wrong is said above its host. Returns how that ends. */
export function dropping(store: Store, root: HTMLElement, host: HTMLElement, live: Live): () => void {
  const note = h("div");
  host.before(note);
  const open = async (file: File): Promise<void> => {
    fill(note);
    store.say(`Opening ${file.name}.`);
    try {
      const reply = await send(live, file);
      if (typeof reply["run"] === "number") store.goWhenThere(reply["run"]);
      store.say(String(reply["text"] ?? ""));
    } catch (error) {
      fill(note, h("p", { class: "ll-sorry ll-lines", role: "alert" }, `${error instanceof Error ? error.message : String(error)} `, button("×", "close", () => fill(note))));
    }
  };
  let inside = 0;
  const acts: Readonly<Record<string, (event: DragEvent) => void>> = {
    dragenter: () => void inside++,
    dragleave: () => void inside--,
    dragover: () => undefined,
    drop: ({ dataTransfer }) => {
      inside = 0;
      const file = dataTransfer?.files[0];
      if (file) void open(file);
    },
  };
  const heard = (event: Event): void => {
    const { dataTransfer, type } = event as DragEvent;
    if (!live.hasKernel || !dataTransfer?.types.includes("Files")) return;
    // Else a browser would show the file in place of the page, and JupyterLab would copy it.
    event.preventDefault();
    event.stopPropagation();
    acts[type]!(event as DragEvent);
    root.classList.toggle("ll-over", inside > 0);
  };
  const choose = (): void => {
    const input = h("input", { type: "file", onchange: () => input.files?.[0] && void open(input.files[0]) });
    input.click();
  };
  for (const name of Object.keys(acts)) root.addEventListener(name, heard);
  root.addEventListener("ll-open", choose);
  return () => {
    for (const name of Object.keys(acts)) root.removeEventListener(name, heard);
    root.removeEventListener("ll-open", choose);
    note.remove();
  };
}

/** The button that asks for a file; there is none where nobody could open it. */
export function openButton(live: Live): HTMLElement | null {
  return live.hasKernel ? tellButton("open", "Open a recording, a model or weights beside what is on show; dropping the file here does the same", "ll-open") : null;
}

async function send(live: Live, file: File): Promise<Reply> {
  let reply: Reply = {}, at = 0;
  do {
    const piece = file.slice(at, at + PIECE);
    reply = await live.ask("drop", { name: file.name, size: file.size, at }, await piece.arrayBuffer());
    at += PIECE;
  } while (at < file.size);
  return reply;
}
