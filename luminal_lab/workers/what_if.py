"""What would be sent if values were cut otherwise: `shard` again, without a compile or a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from luminal_lab.errors import GraphError, UnknownNameError
from luminal_lab.passes.compilation import Compilation
from luminal_lab.passes.compile import compile_ir
from luminal_lab.workers.communication import Communication
from luminal_lab.workers.compiler import ShardedProgram
from luminal_lab.workers.flow import Flow
from luminal_lab.workers.plan import Annotation, annotated
from luminal_lab.workers.shard import Shard


def what_if(compilation: Compilation, changed: Mapping[str, Sequence[str]]) -> Communication:
    """Return what workers would send with other annotations of some values, by their names.

    >>> import luminal_lab as ll
    >>> cx = ll.Graph()
    >>> _ = cx.tensor((4, 2), name="x").sum(0).retrieve()
    >>> compiled = cx.compile(ll.Sharded(ll.sharding(ll.Mesh(data=2), {"x": ("data", None)})))
    >>> compiled.communication.bytes, what_if(compiled, {"x": ("-", "data")}).bytes
    (8, 0)
    """
    program: object = compilation.runner
    if not isinstance(program, ShardedProgram):
        raise GraphError(
            f"what if: {compilation.written.name} was not compiled for a mesh of workers",
            hint="compile it for one: cx.compile(…, ll.Sharded(…))",
        )
    plan = program.how.plan
    ir = next(shot.before for shot in compilation.snapshots if shot.name == Shard.name)
    named = {node.name: node.id for node in ir}
    others = dict[int, Annotation]()
    for name, words in changed.items():
        UnknownNameError.unless_known(name, named, f"what if: {ir.name} has no value {name!r}")
        asked = annotated(plan.mesh, name, words, None)  # it stands at no line
        what = named[name] if {*"*?["} & {*name} or ir[named[name]].meta.name is None else name
        others[named[name]] = asked._replace(what=what)
    kept = [
        annotation._replace(what=node.id)
        for annotation in plan.annotations
        for node in ir
        if annotation.names(node) and node.id not in others
    ]
    plan = replace(plan, annotations=(*kept, *others.values()))
    sharded = compile_ir(ir, Shard(plan)).ir
    return Communication(Flow(sharded, plan.mesh, plan.inputs(sharded), wishes=False))
