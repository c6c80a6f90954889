"""The e-graph itself: congruence, sums and products as multisets, the same order each time."""

import subprocess
import sys

import pytest

from luminal_lab.algebra.egraph import EGraph
from luminal_lab.algebra.language import Applied, Folded, Leaf, Product, Ratio, Sum
from luminal_lab.core.dtypes import DType
from luminal_lab.core.ops import Exp2, LessThan
from luminal_lab.kernels.definition.terms import Read, axis_of

F = DType.float32
I, J = axis_of("i", 3), axis_of("j", 5)  # noqa: E741  # the name of the axis


def leaf(egraph: EGraph, name: str, *axes: object) -> int:
    return egraph.add(Leaf(Read(name, axes or (I, J), F)))  # pyright: ignore[reportArgumentType]


@pytest.fixture
def egraph() -> EGraph:
    return EGraph()


def test_equal_parts_make_equal_nodes_up_to_the_root(egraph: EGraph) -> None:
    x, y = leaf(egraph, "x"), leaf(egraph, "y")
    powers = [egraph.add(Applied(Exp2(), F), part) for part in (x, y)]
    sums = [egraph.add(Folded("sum", J, 5, F), power) for power in powers]
    assert egraph.find(sums[0]) != egraph.find(sums[1])
    egraph.union(x, y, "given")
    egraph.rebuild()
    assert egraph.find(sums[0]) == egraph.find(sums[1])
    assert [reason.rule for reason in egraph.reasons] == ["given", "", ""]


def test_sums_do_not_care_for_order_nor_brackets(egraph: EGraph) -> None:
    x, y, z = (leaf(egraph, name) for name in "xyz")
    left = egraph.sum(1, [(egraph.sum(2, [(x, 1), (y, 1)], F), 2), (z, 1)], F)
    right = egraph.sum(5, [(z, 1), (y, 2), (x, 2)], F)
    assert left == right
    assert egraph.look(left, Sum) is not None


@pytest.mark.parametrize("weight", [1.0, -3.0, 0.5])
def test_terms_that_are_alike_are_joined(egraph: EGraph, weight: float) -> None:
    x, y = leaf(egraph, "x"), leaf(egraph, "y")
    assert egraph.sum(0, [(x, weight), (y, 2), (x, -weight), (y, -1)], F) == y
    assert egraph.sum(0, [(x, weight), (x, -weight)], F) == egraph.constant(0, F)


def test_products_hold_their_numbers_as_one_factor(egraph: EGraph) -> None:
    x, y, two = leaf(egraph, "x"), leaf(egraph, "y"), egraph.constant(2, F)
    inner = egraph.product(0.5, [y, x], F)
    product = egraph.product(3, [x, inner, two], F)
    node = egraph.look(product, Product)
    assert node is not None
    assert (node.operator, node.children) == (Product(3, F), tuple(sorted((x, x, y))))
    assert egraph.product(1, [x, egraph.constant(1, F)], F) == x
    assert egraph.product(1, [x, egraph.constant(0, F)], F) == egraph.constant(0, F)


def test_a_product_that_becomes_a_number_becomes_one_wherever_it_stands(egraph: EGraph) -> None:
    x, y = leaf(egraph, "x"), leaf(egraph, "y")
    total = egraph.sum(1, [(egraph.product(1, [x, y], F), 2)], F)
    egraph.union(x, egraph.constant(3, F), "given")
    egraph.union(y, egraph.constant(0.5, F), "given")
    egraph.rebuild()
    assert egraph.facts(total).constant == 4
    assert len([*egraph.nodes(total)]) == 1


def test_functions_of_numbers_are_numbers(egraph: EGraph) -> None:
    less = egraph.add(Applied(LessThan(), DType.bool_), *(egraph.constant(v, F) for v in (0, 1)))
    assert egraph.known(less) == 1
    assert egraph.known(egraph.add(Applied(Exp2(), F), egraph.constant(3, F))) == 8


def test_a_class_knows_the_axes_of_the_node_that_needs_fewest(egraph: EGraph) -> None:
    x, y = leaf(egraph, "x"), leaf(egraph, "y", I)
    top = egraph.add(Folded("max", J, 5, F), x)
    below = egraph.sum(0, [(x, 1), (top, -1)], F)
    assert egraph.facts(below).free == {"i", "j"}
    assert egraph.facts(below).moving == {"j"}
    assert egraph.divided([x, y, top], J) == ([x], [y, top])
    egraph.union(below, y, "given")
    egraph.rebuild()
    assert egraph.facts(below).free == {"i"}
    assert egraph.facts(below).moving == set()


def test_a_question_is_solved_by_an_answer(egraph: EGraph) -> None:
    ratio = egraph.add(Ratio(J, F), leaf(egraph, "x"))
    power = egraph.add(Applied(Exp2(), F), ratio)
    assert not egraph.facts(power).is_solved
    egraph.union(ratio, egraph.constant(1, F), "ratio-plain")
    egraph.rebuild()
    assert egraph.facts(power).is_solved


def test_nodes_and_programs_are_the_same_for_every_order_of_hashes() -> None:
    script = """if True:
        from tests.search.written import attention, searched
        space = searched(attention(after=0.125))
        print(*space.egraph.each(), sep="\\n")
        for pick in space.programs():
            print(pick.cost, *((number, pick.node(number)) for number in pick.order))
    """
    outputs = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in "01"
    }
    assert len(outputs) == 1
    assert len(outputs.pop()) > 1_000
