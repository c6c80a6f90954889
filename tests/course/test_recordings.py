"""The recordings of the course are those of this version: what they hold is made again."""

import pytest

from luminal_lab.course import recorded
from luminal_lab.errors import UnknownNameError
from tests.record_product import plan


def test_the_search_of_notebook_13_is_made_again_by_its_plan() -> None:
    saved = recorded("product").search
    again = saved.replay(plan=plan()["tiles"]).kernels["product"]
    assert str(again.candidates) == str(saved.candidates), "python -m tests.record_product"


def test_an_unknown_recording_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="the course has no recording 'matmul'"):
        recorded("matmul")
