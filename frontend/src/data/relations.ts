// What a selection is related to, everywhere: nodes of every stage, lines, firings, launches, kernels, buffers.

import type { Launch, Run } from "./model";
import type { Selected } from "./selected";

/** Everything that lights up in some pane. */
export interface Related {
  /** Of each stage the ids of the nodes. */
  readonly nodes: readonly ReadonlySet<number>[];
  /** Lines of the user's, by their place in `run.origins`. */
  readonly origins: ReadonlySet<number>;
  readonly launches: ReadonlySet<number>;
  readonly kernels: ReadonlySet<number>;
  readonly buffers: ReadonlySet<number>;
  /** Of each stage the numbers of the firings. */
  readonly firings: readonly ReadonlySet<number>[];
  /** Lines of sources (from 1), by "kernel/dialect". */
  readonly lines: ReadonlyMap<string, ReadonlySet<number>>;
}

/** Follow a selection through all stages, both ways. */
export function related(run: Run, selected: Selected | null): Related {
  const found = new Following(run);
  if (selected) found.from(selected);
  return found;
}

/** What is asked again and again of one run. */
class Index {
  readonly launchesOf = new Map<number, number[]>();
  readonly coveredBy = new Map<number, number[]>();
  readonly launchesOfKernel = new Map<number, number[]>();
  readonly buffersOf = new Map<number, number[]>();
  /** Of an id the lines of sources that come of it. */
  readonly linesOf = new Map<number, [kernel: string, line: number][]>();

  constructor(run: Run) {
    const { launches, buffers, kernels } = run.facts;
    launches.forEach((launch, at) => {
      for (const id of new Set([launch.node, ...launch.makes])) put(this.launchesOf, id, at);
      for (const id of launch.covers) put(this.coveredBy, id, at);
      put(this.launchesOfKernel, launch.kernel, at);
    });
    buffers.forEach((buffer, at) => {
      for (const id of buffer.nodes) put(this.buffersOf, id, at);
    });
    kernels.forEach((kernel, at) => {
      for (const { dialect, lines } of kernel.sources)
        for (const [line, ids] of lines) for (const id of ids) put(this.linesOf, id, [`${at}/${dialect}`, line]);
    });
  }
}

const indices = new WeakMap<Run, Index>();

class Following implements Related {
  readonly nodes: Set<number>[];
  readonly origins = new Set<number>();
  readonly launches = new Set<number>();
  readonly kernels = new Set<number>();
  readonly buffers = new Set<number>();
  readonly firings: Set<number>[];
  readonly lines = new Map<string, Set<number>>();
  /** Nodes of each stage to begin from, both ways. */
  private readonly seeds: Set<number>[];
  private readonly index: Index;
  private readonly last: number;

  constructor(private readonly run: Run) {
    const sets = () => run.stages.map(() => new Set<number>());
    this.nodes = sets();
    this.firings = sets();
    this.seeds = sets();
    this.last = run.stages.length - 1;
    let index = indices.get(run);
    if (!index) indices.set(run, (index = new Index(run)));
    this.index = index;
  }

  from(what: Selected): void {
    const { run, index } = this;
    switch (what.kind) {
      case "node":
        this.seed(what.stage, what.ids);
        break;
      case "scope":
        this.seed(what.stage, idsInScope(run, what.stage, what.path));
        break;
      case "line":
        this.origins.add(what.origin);
        // What a pass made of several lines' nodes says one of them: it is found there as well.
        for (const row of run.rowsOfOrigin(what.origin)) this.seedAnywhere(run.id[row]!);
        break;
      case "firing":
        this.firing(what.stage, what.firing);
        break;
      case "rule":
        run.stages.forEach((stage, at) => {
          if (!Object.hasOwn(stage.counts, what.rule)) return;
          const firings = run.firings(at);
          for (let one = 0; one < firings.count; one++) if (firings.rule(one) === what.rule) this.firing(at, one);
        });
        break;
      case "kernel":
        this.kernels.add(what.kernel);
        for (const launch of index.launchesOfKernel.get(what.kernel) ?? []) this.launch(launch);
        break;
      case "launch":
        this.launch(what.launch);
        break;
      case "source": {
        const key = `${what.kernel}/${what.dialect}`;
        add(this.lines, key, what.line);
        const source = run.facts.kernels[what.kernel]?.sources.find(({ dialect }) => dialect === what.dialect);
        const ids = source?.lines.filter(([line]) => line === what.line).flatMap(([, ids]) => ids) ?? [];
        for (const id of ids) this.seedAnywhere(id);
        if (!ids.length) this.kernels.add(what.kernel);
        break;
      }
      case "buffer":
        this.buffers.add(what.buffer);
        for (const id of run.facts.buffers[what.buffer]?.nodes ?? []) this.seedAnywhere(id);
        run.facts.launches.forEach((launch, at) => launch.buffers.includes(what.buffer) && this.lightLaunch(at, launch));
        break;
    }
    this.follow(what);
  }

  private seed(stage: number, ids: Iterable<number>): void {
    const seeds = this.seeds[stage];
    if (seeds) for (const id of ids) seeds.add(id);
  }

  /** Begin from an id in the last graph that has it. */
  private seedAnywhere(id: number): void {
    for (let stage = this.last; stage >= 0; stage--)
      if (this.run.alive(stage).row(id) >= 0) {
        this.seeds[stage]!.add(id);
        return;
      }
  }

  private firing(stage: number, firing: number): void {
    const { id } = this.run;
    const firings = this.run.firings(stage);
    if (firing < 0 || firing >= firings.count) return;
    this.firings[stage]!.add(firing);
    this.seed(stage - 1, Array.from(firings.gone(firing), (row) => id[row]!));
    this.seed(stage, Array.from(firings.fresh(firing), (row) => id[row]!));
  }

  private launch(at: number): void {
    const launch = this.run.facts.launches[at];
    if (!launch) return;
    this.lightLaunch(at, launch);
    this.seed(this.last, [launch.node, ...launch.makes]);
    // What it covers only lights up: parts of it may have gone elsewhere as well.
    for (const id of launch.covers) this.nodes[0]!.add(id);
    for (const origin of launch.origins) this.origins.add(origin);
    for (const buffer of launch.buffers) this.buffers.add(buffer);
  }

  private lightLaunch(at: number, launch: Launch): void {
    this.launches.add(at);
    this.kernels.add(launch.kernel);
  }

  /** Forward from each seed to the last graph, and back to the first; never forth and back again. */
  private follow(what: Selected): void {
    const { run, seeds, nodes, last, index } = this;
    let ids = new Set<number>();
    for (let stage = 0; stage <= last; stage++) {
      if (stage) ids = this.onward(ids, stage);
      const alive = run.alive(stage), passing = new Set<number>();
      for (const id of seeds[stage]!) {
        ids.add(id);
        if (stage && alive.row(id) < 0) passing.add(id);
      }
      if (passing.size) for (const id of this.onward(passing, stage)) ids.add(id);
      for (const id of ids) nodes[stage]!.add(id);
    }
    const reached = ids;
    ids = new Set();
    for (let stage = last; stage >= 0; stage--) {
      for (const id of seeds[stage]!) ids.add(id);
      for (const id of ids) nodes[stage]!.add(id);
      if (stage) ids = this.backward(ids, stage);
    }
    // Covers are the shorter way from what was written; from elsewhere they would bring in too much.
    const isFirst = what.kind === "line" || ((what.kind === "node" || what.kind === "scope") && what.stage === 0);
    if (isFirst)
      for (const id of nodes[0]!)
        for (const at of index.coveredBy.get(id) ?? []) {
          this.lightLaunch(at, run.facts.launches[at]!);
          nodes[last]!.add(run.facts.launches[at]!.node);
        }
    if (what.kind !== "launch" && what.kind !== "kernel")
      for (const id of reached)
        for (const at of index.launchesOf.get(id) ?? []) this.lightLaunch(at, run.facts.launches[at]!);
    this.light(what);
  }

  /** What nodes of the stage before are after it. */
  private onward(ids: ReadonlySet<number>, stage: number): Set<number> {
    return this.through(ids, stage, this.run.alive(stage), this.run.links(stage).forward, "fresh");
  }

  private backward(ids: ReadonlySet<number>, stage: number): Set<number> {
    return this.through(ids, stage, this.run.alive(stage - 1), this.run.links(stage).back, "gone");
  }

  private through(
    ids: ReadonlySet<number>, stage: number, there: { row(id: number): number },
    links: ReadonlyMap<number, readonly number[]>, side: "gone" | "fresh",
  ): Set<number> {
    const found = new Set<number>();
    const passing: number[] = [];
    for (const id of ids) {
      const linked = links.get(id);
      if (linked) for (const other of linked) found.add(other);
      if (there.row(id) >= 0) found.add(id);
      else if (!linked) passing.push(id);
    }
    // A node that was born and went within the pass: through the firings that touched it.
    const seen = new Set(passing), { id: idOf } = this.run;
    while (passing.length) {
      const id = passing.pop()!;
      const firings = this.run.firings(stage);
      const isThere = (rows: Uint32Array) => rows.some((row) => idOf[row] === id);
      for (const firing of firings.touching(id)) {
        const other = side === "fresh" ? firings.gone(firing) : firings.fresh(firing);
        if (!isThere(other)) continue;
        for (const row of firings[side](firing)) {
          const next = idOf[row]!;
          if (seen.has(next)) continue;
          seen.add(next);
          if (there.row(next) >= 0) found.add(next);
          else passing.push(next);
        }
      }
    }
    return found;
  }

  /** Lines, firings, buffers and lines of sources of the nodes that were found. */
  private light(what: Selected): void {
    const { run, nodes, last, index } = this;
    if (what.kind !== "launch" && what.kind !== "kernel" && what.kind !== "line") {
      for (const id of nodes[0]!) this.origin(run.alive(0).row(id));
      this.seeds.forEach((ids, stage) => {
        for (const id of ids) this.origin(run.alive(stage).row(id));
      });
    } else if (what.kind !== "line" && !this.origins.size) for (const id of nodes[0]!) this.origin(run.alive(0).row(id));
    if (what.kind !== "firing" && what.kind !== "rule")
      for (let stage = 1; stage <= last; stage++) {
        const firings = run.firings(stage);
        if (!firings.count) continue;
        for (const ids of [nodes[stage - 1]!, nodes[stage]!])
          for (const id of ids) for (const firing of firings.touching(id)) this.firings[stage]!.add(firing);
      }
    if (what.kind !== "buffer")
      for (const id of nodes[last]!) for (const buffer of index.buffersOf.get(id) ?? []) this.buffers.add(buffer);
    if (what.kind === "source") return;
    const seen = new Set<number>();
    for (const ids of nodes)
      for (const id of ids) {
        if (seen.has(id)) continue;
        seen.add(id);
        for (const [key, line] of index.linesOf.get(id) ?? []) add(this.lines, key, line);
      }
  }

  private origin(row: number): void {
    const at = row < 0 ? -1 : this.run.origin[row]!;
    if (at >= 0) this.origins.add(at);
  }
}

/** The nodes in a box of a stage's picture; or, where it has no such box, those of a scope. */
function idsInScope(run: Run, stage: number, path: string): number[] {
  const alive = run.alive(stage), view = run.viewOf(stage);
  const thing = view.thingAt(path);
  if (thing >= 0) return Array.from(view.rowsIn(thing)).filter((row) => alive.has(row)).map((row) => run.id[row]!);
  const inside = `${path}.`;
  return Array.from(run.lines(stage))
    .filter((row) => run.scope(row) === path || run.scope(row).startsWith(inside))
    .map((row) => run.id[row]!);
}

function put<V>(map: Map<number, V[]>, key: number, value: V): void {
  const known = map.get(key);
  if (known) known.push(value);
  else map.set(key, [value]);
}

function add(map: Map<string, Set<number>>, key: string, value: number): void {
  const known = map.get(key);
  if (known) known.add(value);
  else map.set(key, new Set([value]));
}
