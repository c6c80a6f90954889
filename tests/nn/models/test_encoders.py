"""Published encoders: each family as transformers computes it, and what is not read is told."""

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.errors import InputError, ModelError
from luminal_lab.nn.models.encoder import Encoder, EncoderConfig, edges
from luminal_lab.nn.models.encoders import FAMILIES, config_of_encoder, fill
from tests.expect import error_of
from tests.needs import need

SIZES = {
    "vocab_size": 101,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 300,
}
DISTILBERT = {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48}
BERT = {"model_type": "bert"}
WHOLE = "a whole number below 2,147,483,648"


def config_message(**entries: object) -> str:
    return str(error_of(lambda: config_of_encoder({**BERT, **entries}), ModelError))


def tiny(seed: int = 0) -> tuple[Encoder, dict[str, ll.Parameter]]:
    """Return an encoder, and values for it under BERT's names."""
    config = EncoderConfig(1, 1, 2, 3, 5, 4)
    rng = np.random.default_rng(seed)
    shapes: dict[str, tuple[int, ...]] = {
        f"embeddings.{name}_embeddings.weight": (size, 2)
        for name, size in {"word": 5, "position": 4, "token_type": 2}.items()
    }
    layer = "encoder.layer.0"
    for name in ("self.query", "self.key", "self.value", "output.dense"):
        shapes[f"{layer}.attention.{name}.weight"] = (2, 2)
        shapes[f"{layer}.attention.{name}.bias"] = (2,)
    shapes |= {f"{layer}.intermediate.dense.weight": (3, 2), f"{layer}.output.dense.weight": (2, 3)}
    shapes |= {f"{layer}.intermediate.dense.bias": (3,), f"{layer}.output.dense.bias": (2,)}
    for name in ("embeddings", f"{layer}.attention.output", f"{layer}.output"):
        shapes |= {f"{name}.LayerNorm.{part}": (2,) for part in ("weight", "bias")}
    values = {
        name: ll.Parameter(shape, value=rng.standard_normal(shape, "float32"))
        for name, shape in shapes.items()
    }
    return Encoder(config), values


@pytest.mark.needs("torch", "transformers")
@pytest.mark.parametrize("kind", FAMILIES)
def test_each_family_computes_what_transformers_does(kind):
    torch, transformers = need("torch"), need("transformers")
    sizes = {key: SIZES[key] for key in ("vocab_size", "max_position_embeddings")}
    sizes |= DISTILBERT if kind == "distilbert" else SIZES
    theirs_config = transformers.AutoConfig.for_model(kind, **sizes)
    torch.manual_seed(0)
    theirs = transformers.AutoModel.from_config(theirs_config).eval()
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    # All that transformers writes into a configuration is read, or known to change nothing.
    encoder = Encoder(config_of_encoder(theirs_config.to_dict()))
    state = {name: value.numpy() for name, value in theirs.state_dict().items()}
    values = {
        name: ll.Parameter(value.shape, str(value.dtype), value=value)
        for name, value in state.items()
    }
    fill(encoder, FAMILIES[kind], values)
    rng = np.random.default_rng(0)
    ids, lengths = rng.integers(5, 101, (3, 280)), np.array([[280], [20], [7]])
    seen = np.arange(280) < lengths
    ids[~seen] = theirs_config.pad_token_id
    with torch.no_grad():
        wanted = theirs(
            input_ids=torch.tensor(ids), attention_mask=torch.tensor(seen).long()
        ).last_hidden_state.numpy()
    cx = ll.Graph()
    shape = ("batch", "seq")
    tokens, mask = cx.tensor(shape, "int64").set(ids), cx.tensor(shape, "bool").set(seen)
    result = encoder(tokens, mask).retrieve()
    cx.execute()
    assert np.abs(result.numpy() - wanted)[seen].max() <= 2e-6


@pytest.mark.needs("torch", "transformers")
def test_distances_fall_into_the_buckets_of_mpnet():
    torch, mpnet = need("torch"), need("transformers").models.mpnet.modeling_mpnet
    steps = np.arange(-200, 201)
    wanted = mpnet.MPNetEncoder.relative_position_bucket(torch.tensor(steps)).numpy()
    far = np.abs(steps)
    own = np.minimum(far, 8) + sum((far >= edge).astype(int) for edge in edges(32))
    assert (own + 16 * (steps > 0) == wanted).all()


def test_weights_of_a_model_with_a_head_lose_their_prefix_and_the_head():
    encoder, values = tiny()
    prefixed = {f"bert.{name}": value for name, value in values.items()}
    head = ll.Parameter((2, 2), value=np.ones((2, 2)))
    fill(
        encoder, FAMILIES["bert"], {**prefixed, "cls.predictions.bias": head, "bert.pooler.w": head}
    )
    query = encoder.encoder.layers[0].self_attn.in_proj_weight.value[:2]
    assert (query == values["encoder.layer.0.attention.self.query.weight"].value).all()


def test_weights_of_fewer_bits_are_widened():
    encoder, values = tiny()
    fill(encoder, FAMILIES["bert"], {name: v.cast("float16") for name, v in values.items()})
    word = values["embeddings.word_embeddings.weight"].value.astype("float16")
    assert encoder.embeddings.words.weight.value.dtype == np.float32
    assert (encoder.embeddings.words.weight.value == word).all()


def test_nothing_is_read_before_it_is_needed():
    encoder, values = tiny()
    read: list[str] = []

    def provide(name: str, value: np.ndarray) -> ll.Parameter:
        return ll.Parameter(value.shape, provider=lambda: read.append(name) or value)

    fill(encoder, FAMILIES["bert"], {n: provide(n, v.value) for n, v in values.items()})
    assert read == []


def test_missing_and_extra_weights_are_named():
    encoder, values = tiny()
    del values["encoder.layer.0.attention.self.key.bias"]
    values["encoder.layer.0.gate.weight"] = ll.Parameter((2,), value=[1, 2])
    message = str(error_of(lambda: fill(encoder, FAMILIES["bert"], values), InputError))
    assert "missing: encoder.layers.0.self_attn.in_proj_bias (6,) float32" in message
    assert "extra: encoder.layer.0.gate.weight (2,) float32" in message


def test_a_weight_of_another_shape_is_named():
    encoder, values = tiny()
    values["embeddings.word_embeddings.weight"] = ll.Parameter((6, 2), value=np.ones((6, 2)))
    message = str(error_of(lambda: fill(encoder, FAMILIES["bert"], values), InputError))
    assert "embeddings.words.weight: is (6, 2) float32, and must be (5, 2) float32" in message


def test_a_key_that_is_not_known_is_an_error():
    assert config_message(use_magic=True).splitlines()[0] == (
        "load: the configuration has 'use_magic': True"
    )


def test_a_key_with_a_meaning_that_is_not_here_is_an_error():
    assert config_message(position_embedding_type="relative_key").splitlines()[0] == (
        "load: the configuration has 'position_embedding_type': 'relative_key', and here it is "
        "always 'absolute'"
    )


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (
            {"hidden_size": "8"},
            f"load: width is '8', and must be {WHOLE}",
        ),
        ({"num_hidden_layers": -1}, "load: layers is -1, and must be a whole number below 1,024"),
        (
            {"vocab_size": 1 << 40},
            f"load: vocab is 1099511627776, and must be {WHOLE}",
        ),
        ({"layer_norm_eps": 7}, "load: eps is 7, and must be a small number"),
        (
            {"hidden_act": "gelo"},
            "load: activation is 'gelo', and must be one of gelu, gelu_new, gelu_pytorch_tanh, "
            "relu, silu, swish, tanh",
        ),
        ({"model_type": "llama"}, "load: there is no encoder of the type 'llama'"),
        ({"model_type": ["bert"]}, "load: there is no encoder of the type ['bert']"),
        (
            {"model_type": "roberta", "pad_token_id": None},
            f"load: pad_token_id is None, and must be {WHOLE}",
        ),
    ],
)
def test_sizes_are_within_reason(entries, message):
    assert config_message(**entries).splitlines()[0] == message
