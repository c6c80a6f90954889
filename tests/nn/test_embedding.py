"""Embeddings beside PyTorch's, with a row for padding and with a tied head."""

from typing import Any

import numpy as np

from luminal_lab import Graph, nn
from luminal_lab.errors import ArgumentError, DTypeError, RangeError, ShapeError
from luminal_lab.passes.gradients import grad
from tests.expect import error_of
from tests.nn.layers import compare

TOKENS = np.array([[1, 2, 2], [9, 0, 1]])


def test_embedding(torch):
    every: list[dict[str, Any]] = [{}, {"padding_idx": 2}, {"padding_idx": -1}]
    for options in every:
        pair = nn.Embedding(10, 4, **options), torch.nn.Embedding(10, 4, **options)
        compare(torch, *pair, TOKENS)
        compare(torch, *pair, TOKENS.astype("int32")[0])


def test_a_tied_head_trains_the_table_from_both_sides(torch):
    model, theirs = nn.Embedding(10, 4), torch.nn.Embedding(10, 4)
    model.load_state_dict(theirs.state_dict())
    cx = Graph()
    scores = model.head(model(cx.tensor((2, 3), "int64").set(TOKENS))).retrieve()
    slope = grad((scores * scores).sum(), model.weight).retrieve()
    cx.execute()
    wanted = theirs(torch.tensor(TOKENS)) @ theirs.weight.T
    (wanted * wanted).sum().backward()
    np.testing.assert_allclose(scores.numpy(), wanted.detach().numpy(), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(slope.numpy(), theirs.weight.grad.numpy(), rtol=1e-4, atol=1e-4)


def test_errors():
    cx = Graph()
    x = cx.tensor((2, 3), name="x")
    error = error_of(lambda: nn.Embedding(5, 4)(x), DTypeError)
    assert error.message == "embedding: %x (2, 3) is float32, and tokens are integers"
    assert error.hint == 'make them so, as in cx.tensor(shape, "int64")'
    error = error_of(lambda: nn.Embedding(5, 4, padding_idx=5), RangeError)
    assert error.message == "embedding: padding_idx is 5, and num_embeddings 5"
    wrong: Any = 1.5
    error = error_of(lambda: nn.Embedding(5, 4, padding_idx=wrong), ArgumentError)
    assert error.message == "embedding: padding_idx is 1.5, and must be the number of a row"
    error = error_of(lambda: nn.Embedding(5, 4).head(x), ShapeError)
    assert error.message == "embedding.head: embedding_dim is 4, but in %x (2, 3) axis -1 has 3"
    error = error_of(lambda: nn.Embedding(0, 4), ShapeError)
    assert error.message == "embedding: num_embeddings is 0"
