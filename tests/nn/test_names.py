"""What `nn` says of names that it has not."""

import re
from typing import Any

import pytest

from luminal_lab import nn
from luminal_lab.errors import UnknownNameError
from luminal_lab.tensor import Tensor
from tests.expect import error_of

names: Any = nn


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("RELU", "did you mean 'ReLU'?"),
        ("layernorm", "did you mean 'LayerNorm'?"),
        ("Lineer", "did you mean 'Linear'?"),
        ("CrossEntropyLoss", "losses are functions: nn.cross_entropy(logits, target)"),
        ("ModuleList", "a plain list in an attribute is found: self.layers = [...]"),
        ("ModuleDict", "a plain dict in an attribute is found: self.parts = {...}"),
        ("Buffer", "a parameter that is not trained: nn.Parameter(shape, trainable=False)"),
        (
            "functional",
            "tensors have them as methods: x.relu(), x.conv2d(weight); losses are "
            "nn.cross_entropy and its like",
        ),
        ("qwxyz", "dir(nn) lists what it has"),
    ],
)
def test_a_name_that_is_not_there(name, hint):
    error = error_of(lambda: getattr(names, name), UnknownNameError)
    assert error.message == f"nn has no {name!r}"
    assert error.hint == hint
    assert "test_names.py" in error.where


def test_what_is_said_instead_is_there():
    for name, hint in nn.INSTEAD.items():
        assert name not in vars(nn)
        for ours in re.findall(r"nn\.(\w+)", hint):
            assert ours in nn.__all__
        for method in re.findall(r"\b[ax]\.(\w+)\(", hint):
            assert hasattr(Tensor, method)


def test_python_can_ask_for_what_is_not_there():
    assert not hasattr(nn, "CrossEntropyLoss")
    assert not hasattr(nn, "__wrapped__")
    with pytest.raises(ImportError, match="CrossEntropyLoss"):
        exec("from luminal_lab.nn import CrossEntropyLoss")
