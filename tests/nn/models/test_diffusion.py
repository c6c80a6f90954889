"""The U-Net of Stable Diffusion as diffusers computes it; its real shape; and what is refused."""

import json
import math
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.errors import LabError, ModelError
from luminal_lab.nn.models.diffusion import UNet, UNetConfig, unet_config
from tests.expect import error_of
from tests.needs import need
from tests.nn.beside import close

TINY: dict[str, Any] = {
    "sample_size": 8,
    "block_out_channels": (8, 16),
    "layers_per_block": 1,
    "norm_num_groups": 4,
    "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
    "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
    "cross_attention_dim": 12,
    "attention_head_dim": 2,
}
LARGER: dict[str, Any] = {
    "block_out_channels": (8, 12, 16),
    "layers_per_block": 2,
    "down_block_types": ("CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"),
    "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"),
    "attention_head_dim": (2, 3, 4),
    "use_linear_projection": True,
    "in_channels": 5,
}
PUBLISHED = {
    "_class_name": "UNet2DConditionModel",
    "_diffusers_version": "0.6.0",
    "act_fn": "silu",
    "attention_head_dim": 8,
    "block_out_channels": [320, 640, 1280, 1280],
    "center_input_sample": False,
    "cross_attention_dim": 768,
    "down_block_types": ["CrossAttnDownBlock2D"] * 3 + ["DownBlock2D"],
    "downsample_padding": 1,
    "flip_sin_to_cos": True,
    "freq_shift": 0,
    "in_channels": 4,
    "layers_per_block": 2,
    "mid_block_scale_factor": 1,
    "norm_eps": 1e-05,
    "norm_num_groups": 32,
    "out_channels": 4,
    "sample_size": 64,
    "up_block_types": ["UpBlock2D"] + ["CrossAttnUpBlock2D"] * 3,
}
"""The `config.json` of Stable Diffusion 1.5."""


def noise_of(model: UNet, given: list[np.ndarray], *passes: Any) -> np.ndarray:
    cx = ll.Graph()
    inputs = [cx.tensor(array.shape, array.dtype).set(array) for array in given]
    noise = model(*inputs).retrieve()
    if passes:
        cx.compile(*passes)
    cx.execute()
    return noise.numpy()


def compared(changes: dict[str, Any], *passes: Any) -> None:
    torch, diffusers = need("torch"), need("diffusers")
    torch.manual_seed(0)
    theirs = diffusers.UNet2DConditionModel(**{**TINY, **changes}).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    # All that diffusers writes into a configuration is read, or known to change nothing.
    ours = UNet(unet_config(json.loads(theirs.to_json_string())))
    ours.load_state_dict({k: v.numpy() for k, v in theirs.state_dict().items()})
    rng = np.random.default_rng(0)
    given = [
        rng.standard_normal((2, theirs.config.in_channels, 8, 8), "float32"),
        np.array([7, 981]),
        rng.standard_normal((2, 5, 12), "float32"),
    ]
    with torch.no_grad():
        wanted = theirs(*map(torch.tensor, given)).sample.numpy()
    close(noise_of(ours, given, *passes), wanted, 1e-5, "the noise")


@pytest.mark.needs("torch", "diffusers")
@pytest.mark.parametrize("changes", [{}, LARGER])
def test_noise_is_that_of_diffusers(changes):
    compared(changes)


@pytest.mark.needs("torch", "diffusers", "cc")
def test_noise_on_the_cpu():
    compared(LARGER, ll.GenericCompiler(), ll.CPUCompiler())


@pytest.mark.needs("cc")
def test_noise_in_16_bits_is_near_that_in_32():
    config = UNetConfig(
        widths=(32, 64), heads=(2, 4), down=(True, False), up=(False, True), layers=1, text=12
    )
    model, rng = UNet(config).initialise(seed=0), np.random.default_rng(0)
    given = [rng.standard_normal((1, 4, 8, 8), "float32"), np.array([7])]
    given += [rng.standard_normal((1, 5, 12), "float32")]
    wanted = noise_of(model, given)
    half = ll.DType.bfloat16.numpy
    halves = [x.astype(half) if x.dtype.kind == "f" else x for x in given]
    passes = ll.GenericCompiler(), ll.CPUCompiler()
    noise = noise_of(model.to("bfloat16"), halves, *passes)
    assert noise.dtype == half
    close(noise.astype("float32"), wanted, 3e-2, "the noise")


@pytest.mark.needs("torch", "diffusers", "safetensors")
def test_a_file_of_theirs_is_loaded_as_it_is(tmp_path):
    need("diffusers").UNet2DConditionModel(**TINY).save_pretrained(tmp_path)
    model = UNet(unet_config(TINY))
    model.load(tmp_path / "diffusion_pytorch_model.safetensors")
    assert all(np.isfinite(value).all() for value in model.state_dict().values())


def test_the_published_shape_has_860_million_weights():
    model = UNet(unet_config(PUBLISHED))
    assert model.config == UNetConfig()
    assert sum(math.prod(p.shape) for p in model.parameters().values()) == 859_520_964


def message(**entries: object) -> str:
    return str(error_of(lambda: unet_config({**PUBLISHED, **entries}), ModelError))


def test_keys_that_are_not_known_are_errors():
    assert message(twist=1).startswith("config.json: the key twist, 1, is not known here")
    assert message(addition_embed_type="text_time").startswith(
        "config.json: the key addition_embed_type is 'text_time', and only null is known here"
    )
    assert message(down_block_types=["DownBlock2D", "AttnDownBlock2D"]).startswith(
        "config.json: the key down_block_types is ['DownBlock2D', 'AttnDownBlock2D'], and only "
        "CrossAttnDownBlock2D and DownBlock2D are known here"
    )
    assert message(block_out_channels=[320, 0]).startswith(
        "config.json: the key block_out_channels is [320, 0], and must be whole numbers from 1 on"
    )
    assert message(block_out_channels=[320, 640]).startswith(
        "config.json: there are 2 block_out_channels, 2 attention_head_dim, 4 down_block_types"
    )


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        ([(1, 5, 8, 8), (1,), (1, 3, 12)], "unet: channels is 4, but in %a (1, 5, 8, 8)"),
        ([(1, 4, 8, 8), (1,), (1, 3, 9)], "unet: text is 12, but in %c (1, 3, 9)"),
        ([(4, 8, 8), (1,), (1, 3, 12)], "unet: needs 4 axes, but %a (4, 8, 8) has 3"),
        ([(1, 4, 8, 8), (), (1, 3, 12)], "unet: the time is %b (), and must be (batch,)"),
    ],
)
def test_inputs_of_another_shape_are_refused(shapes, expected):
    cx, model = ll.Graph(), UNet(unet_config(TINY))
    inputs = [cx.tensor(shape, name=name) for name, shape in zip("abc", shapes, strict=True)]
    assert str(error_of(lambda: model(*inputs), LabError)).startswith(expected)
