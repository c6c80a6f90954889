"""A decoder's graph reads prompts in chunks and begins behind what it has read before."""

from signal import SIGINT, raise_signal
from typing import Any

import numpy as np
import pytest

from luminal_lab.core.dtypes import Array
from luminal_lab.devices.cpu.compiler import CPUCompiler
from luminal_lab.devices.cpu.plan import CPUPlan
from luminal_lab.errors import InputError
from luminal_lab.language import decoding as module
from luminal_lab.language.decoding import Decoding, cache_bytes
from luminal_lab.nn.models.decoder import Decoder
from luminal_lab.nn.models.decoder_weights import load_decoder
from luminal_lab.nn.models.decoders import decoder_of, from_config
from luminal_lab.nn.quantise import quantise
from luminal_lab.session import Graph
from tests.expect import error_of
from tests.language.decoders import CONFIG, weights_of_decoder
from tests.nn.beside import close

pytestmark = pytest.mark.needs("cc")
TEXT = np.random.default_rng(1).integers(0, 259, 40).tolist()


@pytest.fixture(scope="module")
def model() -> Decoder:
    return load_decoder(from_config(CONFIG), weights_of_decoder(CONFIG))


@pytest.fixture(scope="module")
def whole(model) -> np.ndarray:
    """The logits behind each token of the text, by the interpreter and without a cache."""
    cx = Graph()
    y = model(cx.tensor((1, len(TEXT)), "int64").set([TEXT])).retrieve()
    cx.execute()
    return y.numpy()[0]


@pytest.fixture(scope="module")
def made(model) -> Decoding:
    return Decoding(model, 64, CPUCompiler())


@pytest.fixture
def decoding(made) -> Decoding:
    made.held.clear()
    return made


@pytest.fixture
def runs(decoding, monkeypatch) -> list[int]:
    """How many tokens each run is given."""
    counts: list[int] = []
    read = decoding._read

    def counted(tokens, past):
        counts.append(len(tokens))
        read(tokens, past)

    monkeypatch.setattr(decoding, "_read", counted)
    return counts


def test_a_prompt_is_read_in_chunks(decoding, whole, runs, monkeypatch):
    monkeypatch.setattr(module, "CHUNK", 16)
    close(decoding.logits(TEXT), whole[-1], 2e-5, "logits")
    assert runs == [16, 16, 8]


def test_only_new_tokens_are_read(decoding, whole, runs):
    for end in (5, 6, 7, 30, 31):
        close(decoding.logits(TEXT[:end]), whole[end - 1], 2e-5, "logits")
    assert runs == [5, 1, 1, 23, 1]


def test_another_text_begins_behind_what_is_shared(decoding, whole, runs):
    other = [*TEXT[:12], (TEXT[12] + 1) % 259, 3, 4]
    decoding.logits(other)
    assert decoding.held == other
    assert decoding.shared(TEXT) == 12
    close(decoding.logits(TEXT), whole[-1], 2e-5, "logits")
    close(decoding.logits(TEXT[:9]), whole[8], 2e-5, "logits")  # all is there but its logits
    assert runs == [15, 28, 1]
    assert decoding.held == TEXT[:9]


@pytest.mark.parametrize("form", [None, "q8_0"])
def test_the_cache_is_not_copied(form):
    model = load_decoder(from_config(CONFIG), weights_of_decoder(CONFIG))
    if form is not None:
        quantise(model, form)
    decoding = Decoding(model, 64, CPUCompiler())
    buffers = [rows for pair in decoding._steps.cache.buffers for rows in pair]
    places: set[tuple[int, ...]] = set()
    for end in range(8, 13):
        decoding.logits(TEXT[:end])
        places.add(tuple(decoding.session.owned(rows).ctypes.data for rows in buffers))
    assert len(places) == 1


def test_a_step_of_a_model_with_experts_reads_those_that_are_chosen():
    config = {
        "architectures": ["MixtralForCausalLM"], "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "hidden_size": 32, "intermediate_size": 48, "vocab_size": 259,
    }  # fmt: skip
    model = decoder_of(config).initialise(seed=0)
    cx = Graph()
    y = model(cx.tensor((1, len(TEXT)), "int64").set([TEXT])).retrieve()
    cx.execute()
    decoding, whole = Decoding(model, 64, CPUCompiler()), y.numpy()[0]
    for end in (5, 6, 7, 30, 31, 9):  # prompts and steps, by turns
        close(decoding.logits(TEXT[:end]), whole[end - 1], 2e-5, "logits")
    close(decoding.logits(TEXT), whole[-1], 2e-5, "logits")
    assert decoding.compile().time(rounds=3)  # where the cache is now
    definitions = [k.definition for k in decoding.session.kernels if k.definition]
    inputs = [type.shape for each in definitions for _, type in each.inputs]
    assert inputs.count((8, 48, 32)) == inputs.count((8, 32, 48)) * 2 > 0
    made = [out.type.shape for each in definitions for out in each.outputs]
    assert not [shape for shape in made if shape[-2:] in ((48, 32), (32, 48))]


def test_what_was_read_when_ctrl_c_comes_is_kept(decoding, whole, runs, monkeypatch):
    monkeypatch.setattr(module, "CHUNK", 16)
    execute, count = decoding.session.execute, [0]

    def interrupted() -> None:
        count[0] += 1
        if count[0] == 2:
            raise_signal(SIGINT)
        execute()

    monkeypatch.setattr(decoding.session, "execute", interrupted)
    with pytest.raises(KeyboardInterrupt):
        decoding.logits(TEXT)
    assert decoding.held == TEXT[:16]
    close(decoding.logits(TEXT), whole[-1], 2e-5, "logits")
    assert runs == [16, 16, 16, 8]


def test_more_tokens_than_there_is_room_for_are_refused(decoding):
    message = error_of(lambda: decoding.logits([1] * 65), InputError).message
    assert message == "logits: 65 tokens, and there is room for 64"
    assert error_of(lambda: decoding.logits([]), InputError).message.startswith("logits: 0 tokens")
    assert decoding.held == []


def test_the_session_can_be_timed_before_it_has_read_anything(model):
    assert len(Decoding(model, 8, CPUCompiler()).compile().time(rounds=3)) > 10


def test_the_cache_has_the_bytes_that_are_told(decoding, model):
    buffers = [rows for pair in decoding._steps.cache.buffers for rows in pair]
    assert cache_bytes(model.config, 64) == sum(rows.numpy().nbytes for rows in buffers)


def test_sizes_are_bound_before_a_text_begins(model, monkeypatch):
    decoding = Decoding(model, 64, CPUCompiler())
    decoding.prepare(3)
    bound: list[int] = []
    monkeypatch.setattr(CPUPlan, "flops", lambda *_: bound.append(1) or 1 << 40)
    decoding.logits(TEXT[:1])
    assert not bound, "how long kernels take is worked out in a step"


def test_steps_that_multiply_integers_are_near_those_that_do_not():
    """They have a session of their own, which takes over what prompts have left in the cache."""
    model = load_decoder(from_config(CONFIG), weights_of_decoder(CONFIG))
    quantise(model, "q4_0")
    plain, rounded = (
        Decoding(model, 64, CPUCompiler(), activations) for activations in ("float32", "int8")
    )
    apart, told = list[float](), list[Array]()
    for count in (5, 6, 7, 20, 21):
        exact: Any = plain.logits(TEXT[:count])
        told.append(rounded.logits(TEXT[:count]).copy())
        apart.append(np.abs(told[-1] - exact).max() / np.abs(exact).max())
    assert max(apart) < 0.1
    assert apart[0] < 1e-5  # a prompt
    assert apart[1] > 1e-5  # a step
    assert rounded.session.compilation.rounds
    assert rounded._prompts is not None
    assert rounded._prompts.is_compiled
    fresh = Decoding(model, 64, CPUCompiler(), "int8")
    assert fresh.prepare(3)  # both: neither is to be waited for within a text
    assert not fresh.prepare(3)
    assert (fresh._steps.is_compiled, fresh._prompting().is_compiled) == (True, True)
    # A step is taken ahead, so that no step of a text prepares anything; it leaves no trace.
    assert (fresh._steps.session.step, fresh.held) == (1, [])
    for count, logits in zip((5, 6), told, strict=False):
        assert np.array_equal(fresh.logits(TEXT[:count]), logits)
    assert rounded.session["tokens"].shape == (1, 1)
