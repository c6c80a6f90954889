// A page that was exported: its data stands in the document, and no kernel answers.

import { withoutKernel } from "./live";
import { content, shell, type What } from "./shell";
import type { Pane } from "./store";

/** Draw a bundle into an element; what needs a kernel says so. */
export async function open(bytes: Uint8Array, host: HTMLElement, what: What, theme = "auto"): Promise<Pane> {
  return shell(host, await content(bytes, what), { what, theme, live: withoutKernel(), isPage: true });
}

/** Open what a page holds: `<div id="ll-page" data-what=…>` and `<script type="text/plain" id="ll-data">`. */
export function start(): void {
  const host = document.getElementById("ll-page"), data = document.getElementById("ll-data");
  if (!host || !data || host.childElementCount) return;
  const bytes = Uint8Array.from(atob((data.textContent ?? "").trim()), (sign) => sign.charCodeAt(0));
  data.remove();
  for (const one of document.querySelectorAll<HTMLElement>("[data-ll-static]")) one.hidden = true;
  void open(bytes, host, (host.dataset["what"] ?? "workbench") as What, host.dataset["theme"]);
}
