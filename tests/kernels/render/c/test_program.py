"""The source of a program: every kernel once, the launches in order, and nothing of the user's."""

import luminal_lab as ll
from luminal_lab.core.ir import IR
from luminal_lab.core.parse import parse
from luminal_lab.devices.runtime.worklist import Worklist
from luminal_lab.kernels.render.c.program import program_source
from luminal_lab.machines.machine import Machine
from luminal_lab.passes.compile import compile_ir


def worklist(ir: IR) -> Worklist:
    return Worklist(ir, Machine(), {})


def two_layers(name: str) -> IR:
    cx = ll.Graph()
    x = cx.tensor(("n", 4), name=name)
    for _ in range(2):
        x = x.softmax(-1).contiguous() if hasattr(x, "contiguous") else x.softmax(-1)
        x = cx.function(lambda a: a, x, shape=x.shape)
    x.retrieve()
    return compile_ir(cx.ir, ll.GenericCompiler(), *ll.CPUCompiler().passes).ir


def test_equal_layers_are_one_kernel_and_two_launches():
    work = worklist(two_layers("x"))
    source = program_source(work.kernels.values(), work.uses)
    assert len(work.kernels) == 1
    assert len(work.uses) == 2
    (name,) = work.kernels
    assert source.count(f"static lab_function *const phases_{name}[]") == 1
    assert source.count(f"{{phases_{name}, ") == 2


def test_the_source_has_no_names_of_the_users():
    one, other = (
        program_source(w.kernels.values(), w.uses)
        for w in (worklist(two_layers(name)) for name in ("secret", "x"))
    )
    assert one == other
    assert "secret" not in one


def test_a_reshape_and_a_pick_have_the_bytes_of_their_source():
    ir = parse(
        """
        graph g(%x: f32[2, 3]) -> (%y, %z) {
          %v = reshape{shape = [6]} %x : f32[6]
          %y = sin %v : f32[6]
          %z = stop_gradient %y : f32[6]
        }
        """
    )
    work = worklist(ir)
    assert work.slot_of[ir["v"].id] == work.slot_of[ir["x"].id]
    assert work.slot_of[ir["z"].id] == work.slot_of[ir["y"].id]
