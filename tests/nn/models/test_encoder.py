"""The encoder: padding is not seen, kinds are added, and what does not fit is told."""

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.errors import DTypeError, InputError, ShapeError
from luminal_lab.nn.models.encoder import Encoder, EncoderConfig
from tests.expect import error_of

CONFIG = EncoderConfig(layers=2, heads=2, width=8, hidden=12, vocab=20, positions=12)
WITH_DISTANCES = EncoderConfig(2, 2, 8, 12, 20, 12, kinds=0, buckets=32, offset=2)


def run(encoder: Encoder, ids, seen=None, kinds=None) -> np.ndarray:
    cx = ll.Graph()
    shape = ("batch", "seq")
    tokens = cx.tensor(shape, "int64").set(ids)
    mask = None if seen is None else cx.tensor(shape, "bool").set(seen)
    types = None if kinds is None else cx.tensor(shape, "int64").set(kinds)
    result = encoder(tokens, mask, types).retrieve()
    cx.execute()
    return result.numpy()


@pytest.mark.parametrize("config", [CONFIG, WITH_DISTANCES])
def test_padding_changes_nothing(config):
    encoder = Encoder(config).initialise(0)
    alone = run(encoder, [[3, 4, 5]])
    padded = run(encoder, [[3, 4, 5, 9, 9]], [[True] * 3 + [False] * 2])
    assert np.abs(padded[:, :3] - alone).max() <= 1e-6


def test_kinds_are_zero_unless_given():
    encoder = Encoder(CONFIG).initialise(0)
    assert (run(encoder, [[3, 4]]) == run(encoder, [[3, 4]], kinds=[[0, 0]])).all()
    assert np.abs(run(encoder, [[3, 4]]) - run(encoder, [[3, 4]], kinds=[[0, 1]])).max() > 1e-3


def test_a_text_is_within_the_context():
    cx = ll.Graph()
    encoder = Encoder(WITH_DISTANCES)
    error = error_of(lambda: encoder(cx.tensor((1, 11), "int64")), ShapeError)
    assert error.message == "encoder: 11 tokens are given, and the context is 10"


def test_a_text_of_a_free_size_is_within_the_context_when_it_runs():
    encoder = Encoder(CONFIG).initialise(0)
    error = error_of(lambda: run(encoder, [[1] * 13]), (InputError, ShapeError))
    assert "13" in str(error)


def test_what_is_seen_are_bools_of_the_tokens_shape():
    cx = ll.Graph()
    tokens = cx.tensor((1, 3), "int64")
    error = error_of(lambda: Encoder(CONFIG)(tokens, cx.tensor((1, 3))), DTypeError)
    assert error.message == (
        "encoder: seen is float32 (1, 3), and must be bools of the tokens' shape (1, 3)"
    )
