"""The pass that a workbench begins at: one that takes nodes together, never one that tidies up."""

import pytest

import luminal_lab as ll
from luminal_lab.passes.generic import TIDYING
from luminal_lab.viz.telling import telling
from tests.viz.models import MODELS, snapshots

SMALL = [name for name in MODELS if name != "large"]


@pytest.mark.parametrize("name", SMALL)
def test_of_a_model_it_is_recognition_or_fusion(name):
    made = snapshots(name)
    told = made[telling(made)].name
    assert told == "recognise" or told.startswith("fuse-")


@pytest.mark.parametrize("name", ["mlp", "gpt2", "tiny", "block"])
def test_without_recognition_it_is_fusion(name):
    cx = MODELS[name]()
    cx.compile(ll.CPUCompiler())
    assert cx.snapshots[telling(cx.snapshots)].name.startswith("fuse-")


def test_what_tidies_up_is_what_is_left_and_dead_code_the_last_of_that():
    cx = ll.Graph()
    x = cx.tensor((4,), name="x")
    x.exp2()  # used by nothing
    ((x * 1).sin() + (x * 1).sin()).retrieve()
    cx.compile("dce, simplify, cse, dce")
    snapshots = cx.snapshots
    assert {snapshot.name for snapshot in snapshots[1:]} <= TIDYING
    assert snapshots[telling(snapshots)].name == "cse"
    cx.compile("dce")
    assert cx.snapshots[telling(cx.snapshots)].name == "dce"


ORDERED = """\
graph g(%x: f32[9]) -> (%e) {
  %a = random{seed = 0, stream = 0} : f32[9]
  %b = random{seed = 0, stream = 1} : f32[9]
  %c = sum_reduce{axis = 0} %a : f32[1]
  %d = sum_reduce{axis = 0} %b : f32[1]
  %f = add %c, %d : f32[1]
  %o = constant{value = 1.0} : f32[1]
  %q = add %o, %o : f32[1]
  %e = add %f, %q : f32[1]
}
"""


@pytest.mark.parametrize(
    ("passes", "first"),
    [("fold, depth-first", 1), ("fold, dce, depth-first", 1), ("depth-first", 1)],
)
def test_another_order_of_the_nodes_is_told_only_if_there_is_nothing_else(passes, first):
    snapshots = ll.compile_ir(ll.parse(ORDERED), passes).snapshots
    assert snapshots[-1].name == "depth-first"
    assert snapshots[-1].firings
    assert telling(snapshots) == first


def test_a_compile_that_changes_nothing_begins_at_its_end():
    cx = ll.Graph()
    cx.tensor((4,), name="x").sin().retrieve()
    cx.compile("cse")
    assert telling(cx.snapshots) == 1


def test_the_picture_for_places_without_scripts_is_of_the_same_pass():
    cx = MODELS["block"]()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
    live = cx.workbench()
    assert live.stage.name == "recognise"
    assert live.picture().text.startswith(f"Graph block before and after {live.stage.title}")
    assert cx.explore().picture().text.startswith(f"Graph block after {cx.snapshots[-1].title}")
