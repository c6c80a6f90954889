"""Steps made one by one: handles of what they made, attempts, lists of loops, names."""

import pytest

from luminal_lab.errors import ScheduleError
from luminal_lab.kernels.nest.nest import Nest
from luminal_lab.kernels.nest.spelling import spelled
from luminal_lab.kernels.nest.text import parse_nest
from luminal_lab.kernels.steps.kinds import Unroll
from luminal_lab.kernels.steps.loops import Reorder, Split
from luminal_lab.kernels.steps.schedule import Scheduling, parse_schedule
from tests.expect import error_of

PRODUCT = """\
nest product(a: f32[64, 32], b: f32[32, 48]) -> (c: f32[64, 48])
  for i < 64:
    for j < 48:
      local t: f32[] in registers
      t = 0.0
      for k < 32:
        t += fused(a[i, k] * b[k, j])
      c[i, j] = t"""


@pytest.fixture
def scheduling() -> Scheduling:
    return Scheduling(parse_nest(PRODUCT))


def after(*steps: str) -> Nest:
    return parse_schedule("\n".join(steps)).apply(parse_nest(PRODUCT))


def test_a_step_hands_back_what_it_made(scheduling: Scheduling) -> None:
    block, warp, own = scheduling.do(Split(("i",), (16, 4), ("block", "warp", "own"))).loops
    assert (block, warp, own) == ("i.block", "i.warp", "i.own")
    assert [handle.size for handle in (block, warp, own)] == [4, 4, 4]
    scheduling.do(Reorder(("j", own)))
    assert own.loop.name == "i.own"
    assert own.is_whole
    assert own.parts == ["k"]
    columns = scheduling.do("pack b before i.block over k, j as columns")
    assert columns == (("columns_k", "columns_j"), ("columns",))
    assert columns.locals[0].local.type.shape == (32, 48)
    assert all(type(name) is str for step in scheduling.schedule for name in step.names)


def test_loops_come_into_an_order_by_one_step_or_none(scheduling: Scheduling) -> None:
    scheduling.do("split i by 8 as tile, own")
    scheduling.reorder(["i.tile", "i.own", "j"])
    scheduling.reorder(["j", "i.tile", "i.own"])
    assert [str(step) for step in scheduling.steps[1:]] == ["reorder j, i.tile"]
    assert scheduling.tops[0].inner == ["j", "i.tile", "i.own"]


GROWN = """\
nest grown(a: f32[24, n, w], b: f32[24, 6, 2, 3]) -> (c: f32[6, 2*n, 3*w])
  for i < 6:
    for j < 2*n:
      for k < 3*w:
        local t: f32[] in registers
        t = 0.0
        for m < 24:
          t += fused(a[m, j//2, k//3] * b[m, i, j%2, k%3])
        c[i, j, k] = t"""


def test_what_repeats_along_a_result_gets_loops_further_out() -> None:
    scheduling = Scheduling(parse_nest(GROWN))
    assert scheduling.repeats()
    assert (
        str(scheduling.nest).partition("\n")[2]
        == """\
  for j.group < n:
    for j.each < 2:
      for k.each < 3:
        for i < 6:
          for k.group < w:
            local t: f32[] in registers
            t = 0.0
            for m < 24:
              t += fused(a[m, j.group, k.group] * b[m, i, j.each, k.each])
            c[i, j.each + 2*j.group, k.each + 3*k.group] = t"""
    )


def test_a_nest_in_which_nothing_repeats_stays(scheduling: Scheduling) -> None:
    assert not scheduling.repeats()
    assert scheduling.steps == []


def test_loops_become_one_as_far_as_they_are_one_in_memory() -> None:
    def joined(index: str) -> str:
        nest = "nest copy(x: f32[4, 8, 16]) -> (y: f32[4, 8, 16])\n  for i < 4:\n    for j < 8:\n"
        nest += f"      for k < 16:\n        y[i, j, k] = x[{index}]"
        return Scheduling(parse_nest(nest)).join(["i", "j", "k"])

    assert joined("i, j, k") == "ijk"
    assert joined("i, 7 - j, k") == "k"


def test_a_list_of_loops_runs_in_as_few_lines_as_have_room(scheduling: Scheduling) -> None:
    scheduling.do("split j by 12 as a_word_that_is_rather_long, another_that_is_as_long")
    scheduling.run("unroll", [*scheduling.loop("j.a_word_that_is_rather_long").inner])
    assert all(len(str(step)) <= 80 for step in scheduling.steps)
    scheduling.run("parallel", ["i", "k"], where_allowed=True)
    assert str(scheduling.steps[-1]) == "parallel i"


def test_steps_are_made_all_or_none_of_them(scheduling: Scheduling) -> None:
    assert not scheduling.attempted(Split(("i",), (8,)), Unroll(("no_such_loop",)))
    assert not scheduling.steps
    assert scheduling.attempted(Split(("i",), (8,)))


def test_a_handle_of_what_is_gone_names_the_step_that_consumed_it(scheduling: Scheduling) -> None:
    i = scheduling.loop("i")
    scheduling.do("split i by 8 as tile, own")
    scheduling.do("split i.own by 2 as two, one")
    error = error_of(lambda: i.size, ScheduleError)
    assert error.message == "i is gone: `split i by 8 as tile, own` consumed it"
    assert error.hint == "it made i.own, i.tile"
    error = error_of(lambda: scheduling.do(Unroll((i,))), ScheduleError)
    assert error.message.startswith("unroll i: i is gone: `split i by 8")
    error = error_of(lambda: scheduling.do("unroll i.own"), ScheduleError)
    assert (
        error.message == "unroll i.own: i.own is gone: `split i.own by 2 as two, one` consumed it"
    )


def test_an_attempt_is_made_all_or_not_at_all(scheduling: Scheduling) -> None:
    before = scheduling.nest
    with scheduling.attempt() as attempt:
        block, _ = scheduling.do("split j by 8").loops
        scheduling.do("parallel j.block")
    assert not attempt.held
    assert attempt.why.startswith("parallel j.block: it is inside i")
    assert scheduling.nest is before
    assert scheduling.steps == []
    error = error_of(lambda: block.size, ScheduleError)
    assert error.message == "j.block: j.block is gone: what made it was taken back"
    with scheduling.attempt() as attempt:
        scheduling.do("split j by 8")
    assert attempt.held
    assert scheduling.allows(Unroll(("j.own",)))
    assert len(scheduling.steps) == 1
    attempt.undo()
    assert scheduling.nest is before
    with pytest.raises(ZeroDivisionError), scheduling.attempt():
        scheduling.do(f"split j by {len(scheduling.do('split i by 8').loops) // 0}")
    assert scheduling.nest is before


def test_lists_are_one_step() -> None:
    many = after("split i, j by 16, 4 as block, warp, own", "reorder i.block, j.block, i.warp")
    assert list(many.loops)[:6] == ["i.block", "j.block", "i.warp", "i.own", "j.warp", "j.own"]
    few = after("split i by 8", "split j by 8", "reorder i.block, j.block", "unroll i, j.own")
    kinds = {name: loop.kind for name, loop in few.loops.items()}
    assert kinds == {
        "i.block": "unroll",
        "j.block": "for",
        "i.own": "unroll",
        "j.own": "unroll",
    } | {"k": "for"}


def test_nested_loops_are_taken_apart_in_one_go() -> None:
    nest = after("fission i, j as start, sum, end", "reorder k, i_sum")
    assert list(nest.loops) == ["i_start", "j_start", "k", "i_sum", "j_sum", "i_end", "j_end"]
    assert list(after("fission j").loops) == ["i", "j_t", "j_sum", "k", "j_c"]


def test_an_axis_alone_stands_for_its_levels() -> None:
    nest = after(
        "split i by 8, 2 as block, tile, own",
        "split k by 4",
        "pack a before i.tile over k, i as rows",
    )
    names = "rows_k.block", "rows_k.own", "rows_i.tile", "rows_i.own"
    assert tuple(name for name in nest.loops if name.startswith("rows")) == names


def test_merged_loops_are_called_by_their_letters() -> None:
    assert list(after("merge i, j").loops) == ["ij", "k"]
    assert list(after("merge i, j as all").loops) == ["all", "k"]


def test_c_calls_levels_without_dots() -> None:
    nest = after("split i by 8 as tile, own", "pack b before i.own over k, j as i_own")
    assert [*spelled(nest).loops] == ["i_tile", "i_own_k", "i_own_j", "i_own_2", "j", "k"]
    assert spelled(parse_nest(PRODUCT)) == parse_nest(PRODUCT)


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (["split i by 16, 5 as a, b, c"], "blocks of 16 do not have whole parts of 5"),
        (["split i by 16 as a, b, c"], "it makes 2 loops, and there are 3 words for them"),
        (["split i by 16 as for, own"], "'for' cannot be a word for a loop"),
        (["split i by 16", "split i.own by 4"], "there is a i.block already"),
        (["split i by 16 as own, own"], "it would make two loops called i.own"),
        (["split i by 16, 8 as a, b, a"], "it would make two loops called i.a"),
        (["fission j as sum, sum, end"], "it would make two loops called j_sum"),
        (["copy a before j over k, k as rows"], "it would make two loops called rows_k"),
        (["reorder i, j"], "they are in this order"),
        (["reorder i"], "it takes two loops or more, each of them once"),
        (["merge j, i"], "their order is i, j"),
        (["fission i, k"], "in i there is j"),
        (["fission j as start, sum"], "the body of j has 3 statements, and there are 2 words"),
        (["unroll j, k, i.own"], "there is no loop i.own"),
    ],
)
def test_a_list_that_is_refused(steps: list[str], message: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        after(*steps)
    assert message in str(caught.value)


def test_the_first_value_whose_steps_are_allowed_is_taken(scheduling: Scheduling) -> None:
    def cut(part: int) -> None:
        scheduling.do(Split(("i",), (8, part), ("block", "tile", "own")))

    assert scheduling.first(cut, (3, 0, 4, 2))  # 8 has no whole parts of 3
    assert [str(step) for step in scheduling.steps] == ["split i by 8, 4 as block, tile, own"]
    assert not scheduling.first(cut, (2,))  # i is gone
    assert len(scheduling.steps) == 1
