"""The U-Net of Stable Diffusion: what noise is in an image of latents, told what to see in it.

    image ─ conv_in ─ down ─ down ─ … ─ mid ─ … ─ up ─ up ─ norm ─ conv_out ─ noise
                        └──────┴──── each part's results go to its twin ──┘

    a part:   ResNet blocks, which are told the time, each followed by attention to the image and to
              the text in most parts; then half or twice the size, except in the last part

Names of weights are those of diffusers' files, so `load` takes these as they are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from typing_extensions import override

from luminal_lab.core.dtypes import DTypeLike
from luminal_lab.errors import ModelError, ShapeError
from luminal_lab.nn.arguments import at_user, divides, has_rank, same_size, sizes
from luminal_lab.nn.attention import Attention
from luminal_lab.nn.conv import Conv2d
from luminal_lab.nn.linear import Linear
from luminal_lab.nn.models.keys import Keys
from luminal_lab.nn.module import Module
from luminal_lab.nn.norm import GroupNorm, LayerNorm
from luminal_lab.nn.sequential import Identity
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.sources import Sources

DOWN: Final = {"CrossAttnDownBlock2D": True, "DownBlock2D": False}
UP: Final = {"CrossAttnUpBlock2D": True, "UpBlock2D": False}
"""The parts by their names in configurations, and whether there is attention in them."""
ONLY: Final[dict[str, object]] = {
    "_class_name": "UNet2DConditionModel",
    "act_fn": "silu",
    "addition_embed_type": None,
    "addition_time_embed_dim": None,
    "attention_type": "default",
    "center_input_sample": False,
    "class_embed_type": None,
    "class_embeddings_concat": False,
    "conv_in_kernel": 3,
    "conv_out_kernel": 3,
    "cross_attention_norm": None,
    "downsample_padding": 1,
    "dual_cross_attention": False,
    "encoder_hid_dim": None,
    "encoder_hid_dim_type": None,
    "flip_sin_to_cos": True,
    "freq_shift": 0,
    "mid_block_only_cross_attention": None,
    "mid_block_scale_factor": 1,
    "mid_block_type": "UNetMidBlock2DCrossAttn",
    "num_attention_heads": None,
    "num_class_embeds": None,
    "only_cross_attention": False,
    "projection_class_embeddings_input_dim": None,
    "resnet_out_scale_factor": 1.0,
    "resnet_skip_time_act": False,
    "resnet_time_scale_shift": "default",
    "reverse_transformer_layers_per_block": None,
    "time_cond_proj_dim": None,
    "time_embedding_act_fn": None,
    "time_embedding_dim": None,
    "time_embedding_type": "positional",
    "timestep_post_act": None,
    "transformer_layers_per_block": 1,
}
"""The keys that may have one value alone, as other ones mean something that is not here."""
_HARMLESS = (
    "_diffusers_version _name_or_path addition_embed_type_num_heads dropout sample_size "
    "upcast_attention"  # whose scores are float32 in any case
)
HARMLESS: Final = frozenset(_HARMLESS.split())


@dataclass(frozen=True)
class UNetConfig:
    """The sizes of a U-Net; those of Stable Diffusion 1.5, unless others are given."""

    channels: int = 4
    """The channels of an image of latents."""
    out_channels: int = 4
    widths: tuple[int, ...] = (320, 640, 1280, 1280)
    """The channels of each part; the image has half the size in each as in the one before."""
    heads: tuple[int, ...] = (8, 8, 8, 8)
    down: tuple[bool, ...] = (True, True, True, False)
    """Whether there is attention in each part on the way down."""
    up: tuple[bool, ...] = (False, True, True, True)
    layers: int = 2
    """The ResNet blocks of a part on the way down; on the way up there is one more."""
    text: int = 768
    """The features of a token of the text."""
    groups: int = 32
    """The groups of channels that have a norm of their own."""
    eps: float = 1e-5
    linear: bool = False
    """Whether attention's projections of the image are products, and not convolutions."""


def unet_config(given: Mapping[str, object]) -> UNetConfig:
    """Return the sizes that a `config.json` of diffusers tells, or raise for what is not here.

    >>> unet_config({"block_out_channels": [320, 640, 1280, 1280], "cross_attention_dim": 768}).heads
    (8, 8, 8, 8)
    """  # noqa: E501  # a line of a file
    keys, usual = Keys("config.json", given), UNetConfig()
    keys.all_only(ONLY)
    widths = _whole(keys, "block_out_channels", usual.widths)
    heads = keys.get("attention_head_dim", default=8)  # which is their number, whatever its name
    config = UNetConfig(
        keys.whole("in_channels", default=usual.channels, least=1),
        keys.whole("out_channels", default=usual.out_channels, least=1),
        widths,
        (keys.whole("attention_head_dim", default=8, least=1),) * len(widths)
        if isinstance(heads, int)
        else _whole(keys, "attention_head_dim", ()),
        _parts(keys, "down_block_types", DOWN, usual.down),
        _parts(keys, "up_block_types", UP, usual.up),
        keys.whole("layers_per_block", default=usual.layers, least=1, most=1024),
        keys.whole("cross_attention_dim", default=1280, least=1),
        keys.whole("norm_num_groups", default=usual.groups, least=1),
        keys.above("norm_eps", default=usual.eps),
        keys.flag("use_linear_projection", default=usual.linear),
    )
    keys.done(HARMLESS)
    counts = {len(config.widths), len(config.heads), len(config.down), len(config.up)}
    if len(counts) > 1:
        raise ModelError(
            f"config.json: there are {len(config.widths)} block_out_channels, {len(config.heads)} "
            f"attention_head_dim, {len(config.down)} down_block_types and {len(config.up)} "
            "up_block_types",
            hint="each part has one of each",
        )
    return config


def _whole(keys: Keys, name: str, usual: tuple[int, ...]) -> tuple[int, ...]:
    numbers = keys.list(name, kind=int)
    if numbers is None:
        return usual
    if not numbers or min(numbers) < 1 or bool in map(type, numbers):
        raise keys.wrong(name, "must be whole numbers from 1 on")
    return tuple(numbers)


def _parts(
    keys: Keys, name: str, known: Mapping[str, bool], usual: tuple[bool, ...]
) -> tuple[bool, ...]:
    names = keys.list(name, kind=str)
    if names is None:
        return usual
    if not names or not {*names} <= {*known}:
        raise keys.wrong(name, f"only {' and '.join(known)} are known here")
    return tuple(known[part] for part in names)


class UNet(Module):
    """A U-Net: image [batch, channels, height, width], time and text become the image's noise.

    `time` [batch] says how noisy the image is, from 0 to 999; `text` is [batch, words, features].

    >>> config = UNetConfig(widths=(8, 16), heads=(2, 2), down=(True, False), up=(False, True),
    ...     layers=1, text=12, groups=4)
    >>> image, time = cx.tensor(("batch", 4, 8, 8)), cx.tensor(("batch",), "int64")
    >>> UNet(config)(image, time, cx.tensor(("batch", "words", 12))).shape
    (batch, 4, 8, 8)
    """

    def __init__(self, config: UNetConfig | None = None, dtype: DTypeLike = "float32") -> None:
        self.config = c = config or UNetConfig()
        sizes("unet", channels=c.channels, out_channels=c.out_channels, text=c.text)
        for width, heads in zip(c.widths, c.heads, strict=True):
            divides("unet", "heads", heads, width=width)
        widths, first, time = c.widths, c.widths[0], 4 * c.widths[0]
        last = len(widths) - 1
        self.conv_in = Conv2d(c.channels, first, 3, padding=1, dtype=dtype)
        self.time_embedding = TimeEmbedding(first, time, dtype)
        left = [first]  # the channels of the results that the way up takes again
        self.down_blocks: list[Part] = []
        for k, (before, width) in enumerate(zip((first, *widths), widths, strict=False)):
            given = [before, *[width] * (c.layers - 1)]
            part = Part(c, given, width, c.heads[k], c.down[k], "down" * (k < last), dtype)
            self.down_blocks.append(part)
            left += [width] * (c.layers + (k < last))
        self.mid_block = Part(c, [widths[-1]] * 2, widths[-1], c.heads[-1], True, "mid", dtype)
        self.up_blocks: list[Part] = []
        before = widths[-1]
        for k, (width, heads) in enumerate(zip(widths[::-1], c.heads[::-1], strict=True)):
            given = [x + left.pop() for x in [before, *[width] * c.layers]]
            part = Part(c, given, width, heads, c.up[k], "up" * (k < last), dtype)
            self.up_blocks.append(part)
            before = width
        self.conv_norm_out = GroupNorm(c.groups, first, c.eps, dtype=dtype)
        self.conv_out = Conv2d(first, c.out_channels, 3, padding=1, dtype=dtype)

    @override
    def forward(self, image: Tensor, time: Tensor, text: Tensor) -> Tensor:
        has_rank("unet", image, (4,))
        has_rank("unet", text, (3,))
        same_size("unet", image, 1, self.config.channels, "channels")
        same_size("unet", text, -1, self.config.text, "text")
        told = self.time_embedding(time).silu()
        x = self.conv_in(image)
        left = [x]
        for part in self.down_blocks:
            x, made = part(x, told, text)
            left += made
        x, _ = self.mid_block(x, told, text)
        for part in self.up_blocks:
            x, _ = part(x, told, text, left)
        return self.conv_out(self.conv_norm_out(x).silu())


class TimeEmbedding(Module):
    """Features of a time: cosines and sines of ever longer waves, and two layers."""

    def __init__(self, waves: int, width: int, dtype: DTypeLike) -> None:
        self.waves = waves
        self.linear_1 = Linear(waves, width, dtype=dtype)
        self.linear_2 = Linear(width, width, dtype=dtype)

    @override
    def forward(self, time: Tensor) -> Tensor:
        if time.ndim != 1:
            raise at_user(
                ShapeError(
                    f"unet: the time is {time.label}, and must be (batch,)",
                    hint="give a number for each image",
                )
            )
        assert isinstance(time.graph, Sources)
        half = self.waves // 2
        rates = (time.graph.arange(half).cast("float32") * (-math.log(10_000) / half)).exp()
        angles = time.cast("float32").unsqueeze(-1) * rates
        x = angles.cos().concat([angles.sin()], -1).cast(self.linear_1.weight.dtype)
        return self.linear_2(self.linear_1(x).silu())


class Part(Module):
    """ResNet blocks at one size of the image, with or without attention, and a change of size."""

    def __init__(
        self,
        config: UNetConfig,
        given: Sequence[int],
        width: int,
        heads: int,
        attends: bool,
        then: str,
        dtype: DTypeLike,
    ) -> None:
        time = 4 * config.widths[0]
        self.resnets = [ResNet(config, before, width, time, dtype) for before in given]
        # In the middle there is none behind the last block.
        count = (len(given) - (then == "mid")) * attends
        self.attentions = [Transformer2D(config, width, heads, dtype) for _ in range(count)]
        self.downsamplers = [Resampler(width, 2, dtype)] * (then == "down")
        self.upsamplers = [Resampler(width, 1, dtype)] * (then == "up")

    @override
    def forward(
        self, x: Tensor, time: Tensor, text: Tensor, left: list[Tensor] | None = None
    ) -> tuple[Tensor, list[Tensor]]:
        """Return the image, and what the way up takes again; it takes what is `left` by the end."""
        made: list[Tensor] = []
        for k, resnet in enumerate(self.resnets):
            x = resnet(x if left is None else x.concat([left.pop()], 1), time)
            if k < len(self.attentions):
                x = self.attentions[k](x, text)
            made.append(x)
        for half in self.downsamplers:
            x = half(x)
            made.append(x)
        for twice in self.upsamplers:
            x = twice(x.interpolate(scale_factor=2.0))
        return x, made


class Resampler(Module):
    """A convolution: of stride 2, or of an image that was made twice as large."""

    def __init__(self, width: int, stride: int, dtype: DTypeLike) -> None:
        self.conv = Conv2d(width, width, 3, stride, padding=1, dtype=dtype)

    @override
    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x)


class ResNet(Module):
    """Two convolutions, each behind a norm, told the time in between; and x itself."""

    def __init__(
        self, config: UNetConfig, before: int, width: int, time: int, dtype: DTypeLike
    ) -> None:
        self.norm1 = GroupNorm(config.groups, before, config.eps, dtype=dtype)
        self.conv1 = Conv2d(before, width, 3, padding=1, dtype=dtype)
        self.time_emb_proj = Linear(time, width, dtype=dtype)
        self.norm2 = GroupNorm(config.groups, width, config.eps, dtype=dtype)
        self.conv2 = Conv2d(width, width, 3, padding=1, dtype=dtype)
        self.conv_shortcut = Conv2d(before, width, 1, dtype=dtype) if before != width else None

    @override
    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        y = self.conv1(self.norm1(x).silu())
        y = y + self.time_emb_proj(time).unsqueeze(-1).unsqueeze(-1)
        y = self.conv2(self.norm2(y).silu())
        return y + (x if self.conv_shortcut is None else self.conv_shortcut(x))


class Transformer2D(Module):
    """A layer of attention over the positions of an image, between two projections."""

    def __init__(self, config: UNetConfig, width: int, heads: int, dtype: DTypeLike) -> None:
        self.linear = config.linear
        self.norm = GroupNorm(config.groups, width, 1e-6, dtype=dtype)
        if config.linear:
            self.proj_in, self.proj_out = (Linear(width, width, dtype=dtype) for _ in range(2))
        else:
            self.proj_in, self.proj_out = (Conv2d(width, width, 1, dtype=dtype) for _ in range(2))
        self.transformer_blocks = [TransformerBlock(width, heads, config.text, dtype)]

    @override
    def forward(self, x: Tensor, text: Tensor) -> Tensor:
        def flat(y: Tensor) -> Tensor:
            return y.flatten(2).transpose(1, 2)  # [batch, height · width, channels]

        def image(y: Tensor) -> Tensor:
            return y.transpose(1, 2).unflatten(2, x.shape[2:])

        y = self.norm(x)
        y = self.proj_in(flat(y)) if self.linear else flat(self.proj_in(y))
        for block in self.transformer_blocks:
            y = block(y, text)
        return x + (image(self.proj_out(y)) if self.linear else self.proj_out(image(y)))


class TransformerBlock(Module):
    """Attention to the image, attention to the text, and a gated feed-forward part."""

    def __init__(self, width: int, heads: int, text: int, dtype: DTypeLike) -> None:
        self.norm1, self.norm2, self.norm3 = (LayerNorm(width, dtype=dtype) for _ in range(3))
        self.attn1 = ImageAttention(width, heads, width, dtype)
        self.attn2 = ImageAttention(width, heads, text, dtype)
        self.ff = GatedFeed(width, dtype)

    @override
    def forward(self, x: Tensor, text: Tensor) -> Tensor:
        y = self.norm1(x)
        x = x + self.attn1(y, y)
        x = x + self.attn2(self.norm2(x), text)
        return x + self.ff(self.norm3(x))


class ImageAttention(Attention):
    """Attention of an image's positions to those of something else."""

    def __init__(self, width: int, heads: int, features: int, dtype: DTypeLike) -> None:
        super().__init__(width, heads, None, 0.0)
        self.to_q = Linear(width, width, bias=False, dtype=dtype)
        self.to_k, self.to_v = (Linear(features, width, bias=False, dtype=dtype) for _ in range(2))
        self.to_out = [Linear(width, width, dtype=dtype)]

    @override
    def forward(self, x: Tensor, seen: Tensor) -> Tensor:
        return self.to_out[0](self.attend(self.to_q(x), self.to_k(seen), self.to_v(seen)))

    @override
    def options(self) -> str:
        return f"{self.heads} heads"


class GatedFeed(Module):
    """A feed-forward part whose half is gated by the GELU of its other half."""

    def __init__(self, width: int, dtype: DTypeLike) -> None:
        self.net = [
            Gate(width, 4 * width, dtype),
            Identity(),
            Linear(4 * width, width, dtype=dtype),
        ]

    @override
    def forward(self, x: Tensor) -> Tensor:
        for part in self.net:
            x = part(x)
        return x


class Gate(Module):
    """One half of a product's result, times the GELU of the other."""

    def __init__(self, width: int, hidden: int, dtype: DTypeLike) -> None:
        self.proj = Linear(width, 2 * hidden, dtype=dtype)

    @override
    def forward(self, x: Tensor) -> Tensor:
        x, gate = self.proj(x).chunk(2, -1)
        return x * gate.gelu()
