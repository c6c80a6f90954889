// Things of a picture in words: for the pointer, for who hears, and how much of a graph is shown.

import { STATUS, titleOf, worthOf, type Look } from "./drawing";
import { WORDS } from "./shapes";
import { count } from "../data/units";

const MARKS = ["retrieved", "kept", "computed again"];

function marksOf({ scene, there }: Look, thing: number): string[] {
  const status = STATUS[there.status(thing)]?.[0];
  const marks = scene.view.thing.marks[thing]!;
  return [...MARKS.filter((_, bit) => marks & (1 << bit)), ...(there.isUnused(thing) ? ["unused"] : []), ...(status ? [status] : [])];
}

/** "mul %12 f32[4, 8], reads x and %9"; "box h.0, closed, 102 nodes". */
export function nameOf(look: Look, thing: number): string {
  const { there, scene } = look, { view } = scene, { run } = there, row = there.row(thing), box = view.box(thing);
  if (row < 0) {
    if (!box) return "nothing";
    const { nodes, isEach } = there.inBox(thing), equal = box.times > 1 ? `, ${box.times} equal ones` : "";
    const many = `${count(nodes, "node")}${isEach ? " each" : ""}${equal}`;
    return `box ${titleOf(box)}, ${scene.isOpen(thing) ? "open" : "closed"}, ${many}`;
  }
  const called = (id: number): string => {
    let at = there.rowOf(id);
    // Views stand in the wires, as what they view.
    while (at >= 0 && view.folded.has(at) && run.kind(at) === "view") at = there.rowOf(run.sources(at)[0]!);
    const kind = at < 0 ? "" : run.kind(at);
    return at < 0 ? `%${id}` : kind === "constant" ? run.label(at) : `${/^(input|parameter)$/.test(kind) ? "" : "%"}${run.name(at)}`;
  };
  const reads = [...new Set(Array.from(run.sources(row), called))], last = reads.pop();
  return [
    `${run.label(row)} ${run.kind(row) === "input" ? "input" : `%${run.name(row)}`} ${run.type(row)}`,
    ...(last ? [`reads ${reads.length ? `${reads.join(", ")} and ` : ""}${last}`] : []),
    ...marksOf(look, thing),
  ].join(", ");
}

/** All that the pointer is told of a thing, as lines. */
export function toldOf(look: Look, thing: number): string {
  const { there, overlay } = look, { run } = there, row = there.row(thing);
  const worth = worthOf(look, thing)?.text, value = worth ? `${overlay!.name}: ${worth}` : "";
  if (row < 0) return [nameOf(look, thing), value, "double click: open or close"].filter(Boolean).join("\n");
  const origin = run.origins[run.origin[row]!], kind = WORDS[run.kind(row)];
  return [
    run.text(row), kind && `a ${kind}`, marksOf(look, thing).join(", "), run.scope(row) && `scope ${run.scope(row)}`,
    origin && `${origin.file}, line ${origin.line}: ${origin.code}`, run.rule(row) && `made by ${run.rule(row)}`, value,
  ].filter(Boolean).join("\n");
}

/** How much of the graph is shown, and where the rest is. */
export function amountOf({ there, scene }: Look): string {
  const { all, folded, scalars } = there.counts, { view } = scene;
  let nodes = 0;
  for (const { frame } of scene.frames)
    for (let thing = view.frame.things[frame]!; thing < view.frame.things[frame + 1]!; thing++) if (there.row(thing) >= 0) nodes++;
  const closed = all - folded - scalars - nodes;
  const rest = [folded && `${count(folded, "view")} in the edges`, scalars && `${count(scalars, "scalar")} in the ops`, closed > 0 && `${closed.toLocaleString("en")} in closed boxes`].filter(Boolean);
  return rest.length ? `${nodes.toLocaleString("en")} of ${count(all, "node")}; ${rest.join(", ")}` : count(all, "node");
}
