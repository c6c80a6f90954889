"""Models of real classes come in by torch.export, and give what PyTorch gives, at every size."""

from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from tests.importing.zoo import REFUSED, ZOO, Model, made


def leaves(value: Any) -> list[Any]:
    """Return the tensors in what a forward returns."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        return [leaf for part in value for leaf in leaves(part)]
    return [] if value is None else [value]


def drawn(torch: Any, model: Model, size: tuple[int, ...], seed: int) -> dict[str, Any]:
    torch.manual_seed(seed)
    return model.inputs(*size)


def compiles(cx: ll.Graph) -> Any:
    return cx.compile(ll.GenericCompiler(), ll.CPUCompiler())


@pytest.mark.share("name", list(ZOO), 2)
def test_a_model_gives_what_pytorch_gives_at_all_sizes(torch, name):
    model = made(name)
    mine = ll.from_torch(model.module, drawn(torch, model, model.sizes[0], 0), model.dynamic)
    for device in (None, compiles):
        cx = ll.Graph()
        inputs = mine.tensors(cx)
        outputs = leaves(mine(**inputs))
        cx.retrieve(outputs)
        compiled = device and device(cx)
        for seed, size in enumerate(model.sizes[1:], 1):
            given = drawn(torch, model, size, seed)
            for argument, tensor in inputs.items():
                tensor.set(given[argument].numpy())
            cx.execute()
            with torch.no_grad():
                wanted = leaves(model.module(**given))
            assert len(outputs) == len(wanted)
            for got, witness in zip(outputs, wanted, strict=True):
                value = witness.numpy()
                assert got.numpy().shape == value.shape
                most = np.abs(value).max()
                assert np.isfinite(most)
                assert np.abs(got.numpy() - value).max() <= model.tolerance * most
            if device:
                assert cx.compilation is compiled


@pytest.mark.parametrize("name", REFUSED)
def test_a_model_that_cannot_be_imported_is_refused_by_op_reason_and_line(torch, name):
    make, op, reason = REFUSED[name]
    model = make()
    with pytest.raises(ll.ModelError) as caught:
        ll.from_torch(model.module.eval(), drawn(torch, model, model.sizes[0], 0), model.dynamic)
    assert f"{op} cannot be imported: {reason}" in str(caught.value)
    assert "modeling_" in (caught.value.where or "")
    assert op in caught.value.missing


def test_the_zoo_is_large_enough():
    assert len(ZOO) >= 40
    assert not ZOO.keys() & REFUSED.keys()
