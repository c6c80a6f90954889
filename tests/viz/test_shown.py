"""What shows itself is drawn by somebody."""

import inspect
from importlib import import_module

import luminal_lab as ll
from luminal_lab.display import DISPLAYS


def test_each_name_that_is_drawn_has_its_function():
    assert ll.Graph
    for name, shown in DISPLAYS.items():
        table = inspect.getclosurevars(shown).nonlocals["table"]
        assert name in import_module(f"luminal_lab.{table}").FORMATTERS, name
