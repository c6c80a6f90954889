// What is slow: at most five things, each with what it gains, the line, and the change.

import { asked } from "../parts/asking";
import { button, div, fill, h, span } from "../parts/dom";
import type { Finding } from "../data/facts";
import type { Live } from "../data/live";
import type { Pane, Store } from "../data/store";
import { css } from "../parts/styles";
import { seconds } from "../data/units";
import { Watch } from "../parts/watch";

css`
.ll-finding { display: block; width: 100%; text-align: left; font: inherit; color: inherit; background: none; border: 0; border-bottom: 1px solid var(--ll-line); padding: 8px 10px; margin: 0; cursor: pointer; }
.ll-finding:hover { background: var(--ll-hover); } .ll-finding.ll-lit { box-shadow: inset 3px 0 var(--ll-high); }
.ll-finding > span { display: block; overflow-wrap: anywhere; } .ll-finding > .ll-finding-head { display: flex; flex-wrap: wrap; gap: 2px 10px; align-items: baseline; }
.ll-gain { font-size: 15px; font-weight: 700; } .ll-gain.ll-modelled { font-weight: 400; font-style: italic; }
.ll-to-change { margin-top: 3px; padding: 2px 6px; border-left: 3px solid var(--ll-accent); background: var(--ll-panel); }
.ll-doubt { margin: 0; padding: 4px 10px; border-left: 3px solid var(--ll-high); background: var(--ll-panel); }
`;

/** How a gain is known, in words. */
export function known({ gain: { how, low, high, busy } }: Finding): string {
  if (how === "modelled") return "modelled: at most, nothing was run";
  const within = low === null || high === null ? "" : `, ${low.toFixed(2)} to ${high.toFixed(2)}`;
  const load = busy !== null && busy >= 0.25 ? `, while other programs kept ${busy.toFixed(1)} cores busy` : "";
  return `measured by trying, in turns${within}${load}`;
}

export function advice(store: Store, host: HTMLElement, live: Live): Pane {
  const note = h("div", { role: "status", class: "ll-answer" });
  const body = div("ll-detail");
  const ask = async (): Promise<void> => {
    const reply = await asked(live, note, "advise", { run: store.place.run });
    // What was found stands below by now.
    if (reply?.["text"]) store.say(String(reply["text"]));
  };
  /** Its nodes as written, those that are in this run. */
  const go = (finding: Finding): void => {
    const ids = finding.nodes.filter((id) => store.run.rowsOf(id).length);
    if (ids.length) watch.select({ kind: "node", stage: 0, ids });
  };
  const draw = (): void => {
    const { advice } = store.run.facts;
    if (!advice) return void fill(body, h("p", { class: "ll-note" }, "Nobody has looked yet. ", button("What is slow?", "try what would help, on a copy; this takes some seconds", () => void ask()), " tries what would help on a copy of the graph, and times both in turns. In Python: cx.workbench(cx.advise())."));
    const { findings, tried, notes, device } = advice;
    fill(
      body,
      h("p", { class: "ll-note" }, `${seconds(advice.seconds)} a run on ${device}. `, findings.length ? "Each gain is that of one change alone." : `Nothing was found that would make it faster: ${tried === 1 ? "1 change was tried" : `${tried} changes were tried`}.`),
      findings.map((finding, at) => {
        const { gain, title, lines, code, scope, why, change } = finding;
        const mark = gain.how === "modelled" ? "~" : "";
        return h(
          "button",
          { type: "button", class: "ll-finding", "data-finding": at, onclick: () => go(finding) },
          h("span", { class: "ll-finding-head" }, span(`ll-gain ll-${gain.how}`, `${mark}${gain.ratio >= 10 ? gain.ratio.toFixed(0) : gain.ratio.toFixed(2)}×`), h("strong", null, title), span("ll-faint", `${mark}${seconds(gain.seconds)} a run · ${known(finding)}`)),
          h("span", { class: "ll-mono" }, [scope, lines.slice(0, 2).join(", ")].filter(Boolean).join("  "), code && `:  ${code}`),
          span("ll-faint", why),
          span("ll-to-change", change),
        );
      }),
      notes.map((one) => h("p", { class: "ll-doubt" }, one)),
      live.hasKernel && div("ll-bar", button("Look again", "try again, on a copy; this takes some seconds", () => void ask())),
    );
    light();
  };
  const light = (): void => {
    const { selected } = store;
    for (const one of body.querySelectorAll<HTMLElement>("[data-finding]")) {
      const { nodes } = store.run.facts.advice!.findings[Number(one.dataset["finding"])]!;
      one.classList.toggle("ll-lit", selected?.kind === "node" && selected.ids.some((id) => nodes.includes(id)));
    }
  };
  const watch: Watch = new Watch(store, host, { level: "run", draw, light });
  host.append(note, body);
  watch.begin();
  return { dispose: () => watch.dispose() };
}
