"""The table of links: every figure has a source, and names that are not there are told."""

import pytest

from luminal_lab.errors import UnknownNameError
from luminal_lab.machines.links import TABLE, link


def test_every_figure_has_its_source() -> None:
    for name, known in TABLE.items():
        assert known.name == name
        assert known.bandwidth.how == "stated"
        for figure in (known.bandwidth, known.latency):
            assert figure.value > 0
            assert figure.source


def test_a_name_that_is_near_is_told() -> None:
    with pytest.raises(UnknownNameError, match="no link is called 'nvlink4'") as raised:
        link("nvlink4")
    assert "nvlink-4" in str(raised.value.hint)
