"""Small models of the classes that people use, with random weights, and inputs of several sizes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from tests.needs import need

ZOO: dict[str, Callable[[], Model]] = {}
"""What makes each model, by name."""


class Model(NamedTuple):
    """A module, what to call it with at each size, and the axes that vary."""

    module: Any
    inputs: Callable[..., dict[str, Any]]
    """Called with the sizes, returns arguments by name."""
    dynamic: dict[str, Any] | None
    """As `ll.from_torch` takes it; None where all sizes are fixed."""
    sizes: tuple[tuple[int, ...], ...] = ((2, 7), (3, 11), (1, 5))
    """The sizes of the export, and those that are tried."""
    tolerance: float = 1e-5
    """The largest difference, over the largest value."""
    measures: bool = False
    """Whether its batch norms measure a batch first: it is deep, and would forget its input."""


def model(make: Callable[[], Model]) -> Callable[[], Model]:
    """Enter a function that makes a model."""
    ZOO[make.__name__] = make
    return make


def made(name: str) -> Model:
    """Return a model of the zoo; the same name has the same weights each time."""
    torch, _ = pytorch()

    torch.manual_seed(0)
    entry = ZOO[name]()
    with torch.no_grad():  # as they begin, many would give zeros, and no bias would matter
        for value in entry.module.parameters():
            if value.dim() > 1:
                value.normal_(0, value[0].numel() ** -0.5)
            else:
                value.add_(torch.randn_like(value) * 0.1)
        if entry.measures:
            for part in entry.module.modules():
                if hasattr(part, "running_var"):
                    part.momentum = None
            entry.module.train()(**entry.inputs(8, *entry.sizes[0][1:]))
    return entry._replace(module=entry.module.eval())


def pytorch() -> tuple[Any, Any]:
    """Return torch and torch.nn; whoever asks for the fixture `torch` has them."""
    return import_module("torch"), import_module("torch.nn")


def transformers() -> Any:
    """Return the library of most models here."""
    return need("transformers")


def text(names: dict[str, int], dynamic: bool = True) -> dict[str, Any]:
    """Return inputs of tokens, each below a number, and how they vary."""
    torch, _ = pytorch()

    def inputs(batch: int, seq: int) -> dict[str, Any]:
        return {name: torch.randint(1, high, (batch, seq)) for name, high in names.items()}

    return {"inputs": inputs, "dynamic": dict.fromkeys(names, ("batch", "seq"))}


def decoder(kind: str, **more: Any) -> Model:
    """Return a decoder with a head, of any of transformers' families."""
    tf = transformers()
    config = {
        "vocab_size": 64,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 64,
        "use_cache": False,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    config = getattr(tf, f"{kind}Config")(**{**config, **more})
    head = f"{kind}ForCausalLM".replace("TextForCausalLM", "ForCausalLM")
    return Model(getattr(tf, head)(config), **text({"input_ids": 64}))


DECODERS: dict[str, dict[str, Any]] = {
    "Llama": {},
    "Mistral": {"sliding_window": 8},
    "Qwen2": {},
    "Qwen3": {"head_dim": 8},
    "Phi3": {},
    "Phi": {"num_key_value_heads": 4, "partial_rotary_factor": 0.5},
    "Gemma": {"head_dim": 8},
    "Gemma2": {"head_dim": 8, "sliding_window": 4},
    "Gemma3Text": {"head_dim": 8, "sliding_window": 4},
    "Olmo2": {},
    "SmolLM3": {},
    "Granite": {},
    "Cohere": {},
    "StableLm": {},
    "Starcoder2": {},
    "Mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "Qwen3Moe": {
        "head_dim": 8,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 32,
    },
    "GPTNeoX": {"rotary_pct": 0.5},
}
for _kind, _more in DECODERS.items():
    ZOO[_kind.lower()] = functools.partial(decoder, _kind, **_more)

ENCODERS: dict[str, dict[str, Any]] = {
    "Bert": {},
    "Roberta": {},
    "Electra": {"embedding_size": 32},
    "Albert": {"embedding_size": 16},
    "MPNet": {},
}


def encoder(kind: str, **more: Any) -> Model:
    """Return an encoder, called with a mask."""
    tf = transformers()
    torch, _ = pytorch()

    config = {
        "vocab_size": 64,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "max_position_embeddings": 64,
        "pad_token_id": 0,
    }
    config = getattr(tf, f"{kind}Config")(**{**config, **more})

    def inputs(batch: int, seq: int) -> dict[str, Any]:
        mask = torch.ones(batch, seq, dtype=torch.int64)
        mask[0, seq // 2 :] = 0
        return {"input_ids": torch.randint(1, 64, (batch, seq)), "attention_mask": mask}

    free = ("batch", "seq")
    module = getattr(tf, f"{kind}Model")(config)
    return Model(module, inputs, {"input_ids": free, "attention_mask": free})


for _kind, _more in ENCODERS.items():
    ZOO[_kind.lower()] = functools.partial(encoder, _kind, **_more)


@model
def distilbert() -> Model:
    tf = transformers()
    config = tf.DistilBertConfig(
        vocab_size=64, dim=32, hidden_dim=64, n_layers=2, n_heads=4, max_position_embeddings=64
    )
    return Model(tf.DistilBertModel(config), **text({"input_ids": 64}))


@model
def gpt2() -> Model:
    tf = transformers()
    config = tf.GPT2Config(
        vocab_size=64, n_embd=32, n_layer=2, n_head=4, n_positions=64, use_cache=False
    )
    return Model(tf.GPT2LMHeadModel(config), **text({"input_ids": 64}))


@model
def opt() -> Model:
    tf = transformers()
    config = tf.OPTConfig(
        vocab_size=64, hidden_size=32, ffn_dim=64, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=64, word_embed_proj_dim=32, use_cache=False,
    )  # fmt: skip
    return Model(tf.OPTForCausalLM(config), **text({"input_ids": 64}))


@model
def bloom() -> Model:
    tf = transformers()
    config = tf.BloomConfig(vocab_size=64, hidden_size=32, n_layer=2, n_head=4, use_cache=False)
    return Model(tf.BloomForCausalLM(config), **text({"input_ids": 64}))


@model
def mamba() -> Model:
    tf = transformers()
    config = tf.MambaConfig(
        vocab_size=64, hidden_size=16, state_size=4, num_hidden_layers=2, use_cache=False
    )
    entry = Model(tf.MambaForCausalLM(config), **text({"input_ids": 64}))
    # Its scan is a loop over positions.
    return entry._replace(dynamic={"input_ids": ("batch", None)}, sizes=((2, 7), (3, 7), (1, 7)))


@model
def t5() -> Model:
    tf = transformers()
    torch, _ = pytorch()

    config = tf.T5Config(
        vocab_size=64, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, use_cache=False,
        decoder_start_token_id=0,
    )  # fmt: skip

    def inputs(batch: int, seq: int) -> dict[str, Any]:
        return {
            "input_ids": torch.randint(1, 64, (batch, seq)),
            "decoder_input_ids": torch.randint(1, 64, (batch, seq + 2)),
        }

    names = {"input_ids": ("batch", "seq"), "decoder_input_ids": ("batch", "written")}
    return Model(tf.T5ForConditionalGeneration(config), inputs, names)


@model
def bart() -> Model:
    tf = transformers()
    torch, _ = pytorch()

    config = tf.BartConfig(
        vocab_size=64, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64,
        max_position_embeddings=64, use_cache=False,
    )  # fmt: skip

    def inputs(batch: int, seq: int) -> dict[str, Any]:
        return {
            "input_ids": torch.randint(3, 64, (batch, seq)),
            "decoder_input_ids": torch.randint(3, 64, (batch, seq + 2)),
        }

    names = {"input_ids": ("batch", "seq"), "decoder_input_ids": ("batch", "written")}
    return Model(tf.BartModel(config), inputs, names)


@model
def whisper() -> Model:
    tf = transformers()
    torch, _ = pytorch()

    config = tf.WhisperConfig(
        vocab_size=64, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, num_mel_bins=16,
        max_source_positions=20, max_target_positions=32, use_cache=False, pad_token_id=0,
        bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, suppress_tokens=None,
    )  # fmt: skip

    def inputs(batch: int, seq: int) -> dict[str, Any]:
        return {
            "input_features": torch.randn(batch, 16, 40),
            "decoder_input_ids": torch.randint(3, 64, (batch, seq)),
        }

    names = {"input_features": ("batch", None, None), "decoder_input_ids": ("batch", "seq")}
    return Model(tf.WhisperForConditionalGeneration(config), inputs, names)


# -- images ----------------------------------------------------------------------------------------


def image(
    module: Any,
    name: str = "pixel_values",
    channels: int = 3,
    free: bool = False,
    sizes: tuple[int, ...] = (32, 32, 32),
) -> Model:
    """Return a model of images, whose batch varies, and their size if it is free."""
    torch, _ = pytorch()

    def inputs(batch: int, size: int) -> dict[str, Any]:
        return {name: torch.randn(batch, channels, size, size)}

    axes = ("batch", None, "height", "width") if free else ("batch", None, None, None)
    counts = (2, 3, 1)
    return Model(module, inputs, {name: axes}, tuple(zip(counts, sizes, strict=True)))


VIT = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "image_size": 32,
    "patch_size": 8,
}


@model
def vit() -> Model:
    tf = transformers()
    return image(tf.ViTForImageClassification(tf.ViTConfig(**VIT)))


@model
def deit() -> Model:
    tf = transformers()
    return image(tf.DeiTForImageClassificationWithTeacher(tf.DeiTConfig(**VIT)))


@model
def dinov2() -> Model:
    tf = transformers()
    return image(tf.Dinov2Model(tf.Dinov2Config(**VIT)))


@model
def beit() -> Model:
    tf = transformers()
    config = tf.BeitConfig(**VIT, use_relative_position_bias=True)
    return image(tf.BeitModel(config))


@model
def swin() -> Model:
    tf = transformers()
    config = tf.SwinConfig(
        image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4
    )
    return image(tf.SwinForImageClassification(config))


@model
def convnext() -> Model:
    tf = transformers()
    config = tf.ConvNextConfig(hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1])
    return image(tf.ConvNextForImageClassification(config))


@model
def resnet() -> Model:
    tf = transformers()
    config = tf.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], layer_type="bottleneck"
    )
    return image(tf.ResNetForImageClassification(config))


@model
def mobilenet_v2() -> Model:
    tf = transformers()
    config = tf.MobileNetV2Config(depth_multiplier=0.25, image_size=32, tf_padding=False)
    return image(tf.MobileNetV2ForImageClassification(config))


@model
def efficientnet() -> Model:
    tf = transformers()
    config = tf.EfficientNetConfig(
        image_size=32, width_coefficient=0.25, depth_coefficient=0.5, hidden_dim=320
    )
    return image(tf.EfficientNetModel(config))._replace(measures=True)


@model
def convnext_v2() -> Model:
    tf = transformers()
    config = tf.ConvNextV2Config(hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1])
    return image(tf.ConvNextV2ForImageClassification(config))


@model
def swin_v2() -> Model:
    tf = transformers()
    config = tf.Swinv2Config(
        image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4
    )
    return image(tf.Swinv2ForImageClassification(config))


@model
def regnet() -> Model:
    tf = transformers()
    config = tf.RegNetConfig(
        embedding_size=8, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], groups_width=8
    )
    return image(tf.RegNetForImageClassification(config))


@model
def poolformer() -> Model:
    tf = transformers()
    config = tf.PoolFormerConfig(hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1])
    return image(tf.PoolFormerForImageClassification(config))


@model
def mobilevit() -> Model:
    tf = transformers()
    config = tf.MobileViTConfig(
        image_size=64, hidden_sizes=[16, 24, 32], neck_hidden_sizes=[8, 8, 8, 16, 16, 16, 32],
        num_attention_heads=4, aspp_out_channels=16, patch_size=2,
    )  # fmt: skip
    module = tf.MobileViTForImageClassification(config)
    return image(module, sizes=(64, 64, 64))._replace(measures=True)


@model
def segformer() -> Model:
    tf = transformers()
    config = tf.SegformerConfig(
        depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 24, 32], num_attention_heads=[1, 2, 2, 4],
        decoder_hidden_size=16, num_labels=5,
    )  # fmt: skip
    return image(tf.SegformerForSemanticSegmentation(config), sizes=(64, 64, 64))


@model
def yolos() -> Model:
    tf = transformers()
    config = tf.YolosConfig(**{**VIT, "image_size": [32, 32]}, num_detection_tokens=5)
    return image(tf.YolosForObjectDetection(config))


@model
def clip() -> Model:
    tf = transformers()
    torch, _ = pytorch()

    words = {
        "vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 4, "max_position_embeddings": 32, "eos_token_id": 2,
    }  # fmt: skip
    config = tf.CLIPConfig(text_config=words, vision_config=VIT, projection_dim=16)

    def inputs(batch: int, seq: int) -> dict[str, Any]:
        tokens = torch.randint(3, 64, (batch, seq))
        tokens[:, -1] = 2
        return {"input_ids": tokens, "pixel_values": torch.randn(batch, 3, 32, 32)}

    names = {"input_ids": ("batch", "seq"), "pixel_values": ("batch", None, None, None)}
    return Model(tf.CLIPModel(config), inputs, names)


@model
def wav2vec2() -> Model:
    tf = transformers()
    torch, _ = pytorch()

    config = tf.Wav2Vec2Config(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        conv_dim=[16, 16], conv_stride=[5, 2], conv_kernel=[10, 3], num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=2, vocab_size=32,
    )  # fmt: skip

    def inputs(batch: int, length: int) -> dict[str, Any]:
        return {"input_values": torch.randn(batch, length)}

    names = {"input_values": ("batch", "length")}
    return Model(tf.Wav2Vec2ForCTC(config), inputs, names, ((2, 400), (3, 510), (1, 333)))


@model
def hubert() -> Model:
    tf = transformers()
    torch, _ = pytorch()

    config = tf.HubertConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        conv_dim=[16, 16], conv_stride=[5, 2], conv_kernel=[10, 3], num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=2,
    )  # fmt: skip

    def inputs(batch: int, length: int) -> dict[str, Any]:
        return {"input_values": torch.randn(batch, length)}

    names = {"input_values": ("batch", "length")}
    return Model(tf.HubertModel(config), inputs, names, ((2, 400), (3, 510), (1, 333)))


# -- diffusers ----------------------------------------------------------------------------------


@model
def sd_unet() -> Model:
    diffusers = need("diffusers")
    torch, _ = pytorch()

    module = diffusers.UNet2DConditionModel(
        sample_size=8, block_out_channels=(8, 16), layers_per_block=1, norm_num_groups=4,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"), cross_attention_dim=16,
        attention_head_dim=4,
    )  # fmt: skip

    def inputs(batch: int, words: int) -> dict[str, Any]:
        return {
            "sample": torch.randn(batch, 4, 8, 8),
            "timestep": torch.tensor(7),
            "encoder_hidden_states": torch.randn(batch, words, 16),
        }

    names = {
        "sample": ("batch", None, None, None),
        "encoder_hidden_states": ("batch", "words", None),
    }
    return Model(module, inputs, names)


@model
def sd_vae() -> Model:
    diffusers = need("diffusers")
    module = diffusers.AutoencoderKL(
        block_out_channels=(8, 16), layers_per_block=1, norm_num_groups=4,
        down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
    )  # fmt: skip
    return image(module, "sample")


# -- what cannot be imported -----------------------------------------------------------------------


def fnet() -> Model:
    """Return an encoder that mixes by Fourier transforms."""
    tf = transformers()
    config = tf.FNetConfig(vocab_size=64, hidden_size=32, num_hidden_layers=1, intermediate_size=64)
    return Model(tf.FNetModel(config), **text({"input_ids": 64}))


REFUSED: dict[str, tuple[Callable[[], Model], str, str]] = {
    "fnet": (fnet, "aten._to_copy.default", "its result is complex64"),
}
"""Models of real classes that are refused: what makes them, the op, and the reason."""


# -- plain PyTorch ---------------------------------------------------------------------------------


@model
def lstm() -> Model:
    torch, nn = pytorch()

    class Tagger(nn.Module):
        """Tags of words."""

        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(64, 16)
            self.lstm = nn.LSTM(16, 24, 2, batch_first=True, bidirectional=True)
            self.head = nn.Linear(48, 5)

        def forward(self, ids: Any) -> Any:
            return self.head(self.lstm(self.words(ids))[0]).log_softmax(-1)

    def inputs(batch: int, seq: int) -> dict[str, Any]:
        return {"ids": torch.randint(0, 64, (batch, seq))}

    # Its steps are unrolled, and PyTorch exports the batch as it is in the example.
    return Model(Tagger(), inputs, None, ((2, 7),) * 3)


@model
def transformer() -> Model:
    torch, nn = pytorch()

    module = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 2, enable_nested_tensor=False
    )

    def inputs(batch: int, seq: int) -> dict[str, Any]:
        return {"src": torch.randn(batch, seq, 32)}

    return Model(module, inputs, {"src": ("batch", "seq", None)})


@model
def yolov8() -> Model:  # noqa: C901  # its blocks
    torch, nn = pytorch()

    class Conv(nn.Module):
        """Convolution, norm, SiLU."""

        def __init__(self, c1: int, c2: int, k: int = 1, s: int = 1) -> None:
            super().__init__()
            self.conv = nn.Conv2d(c1, c2, k, s, k // 2, bias=False)
            self.bn = nn.BatchNorm2d(c2)

        def forward(self, x: Any) -> Any:
            return nn.functional.silu(self.bn(self.conv(x)))

    class C2f(nn.Module):
        """Branches that are joined."""

        def __init__(self, c1: int, c2: int, n: int = 1) -> None:
            super().__init__()
            self.c = c2 // 2
            self.cv1, self.cv2 = Conv(c1, c2), Conv((2 + n) * self.c, c2)
            self.m = nn.ModuleList(
                nn.Sequential(Conv(self.c, self.c, 3), Conv(self.c, self.c, 3)) for _ in range(n)
            )

        def forward(self, x: Any) -> Any:
            parts = list(self.cv1(x).chunk(2, 1))
            for block in self.m:
                parts.append(parts[-1] + block(parts[-1]))
            return self.cv2(torch.cat(parts, 1))

    class SPPF(nn.Module):
        """Pools of growing windows."""

        def __init__(self, c: int) -> None:
            super().__init__()
            self.cv1, self.cv2 = Conv(c, c // 2), Conv(c * 2, c)
            self.pool = nn.MaxPool2d(5, 1, 2)

        def forward(self, x: Any) -> Any:
            x = self.cv1(x)
            parts = [x]
            for _ in range(3):
                parts.append(self.pool(parts[-1]))
            return self.cv2(torch.cat(parts, 1))

    class Yolo(nn.Module):
        """A backbone, a neck, and boxes and classes at two scales."""

        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Sequential(Conv(3, 8, 3, 2), Conv(8, 16, 3, 2), C2f(16, 16))
            self.down = nn.Sequential(Conv(16, 32, 3, 2), C2f(32, 32), SPPF(32))
            self.up, self.neck = nn.Upsample(scale_factor=2), C2f(48, 16)
            self.boxes = nn.ModuleList(nn.Conv2d(c, 4 * 4 + 3, 3, padding=1) for c in (16, 32))

        def forward(self, x: Any) -> tuple[Any, Any]:
            a = self.stem(x)
            b = self.down(a)
            a = self.neck(torch.cat([self.up(b), a], 1))
            flat = torch.cat([h(y).flatten(2) for h, y in zip(self.boxes, (a, b), strict=True)], 2)
            box, score = flat.split([16, 3], 1)
            share = box.view(box.shape[0], 4, 4, -1).softmax(2)
            weight = torch.arange(4, dtype=torch.float32, device=x.device).view(1, 1, 4, 1)
            return (share * weight).sum(2), score.sigmoid()

    return image(Yolo(), "x", sizes=(64, 64, 64))


@model
def unet() -> Model:
    torch, nn = pytorch()

    class UNet(nn.Module):
        """Skips that are joined right before a convolution."""

        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Conv2d(3, 8, 3, padding=1)
            self.down = nn.Conv2d(8, 16, 3, 2, 1)
            self.up = nn.ConvTranspose2d(16, 8, 2, 2)
            self.last = nn.Conv2d(16, 4, 3, padding=1)

        def forward(self, x: Any) -> Any:
            a = self.first(x).relu()
            return self.last(torch.cat([a, self.up(self.down(a).relu())], 1))

    return image(UNet(), "x", sizes=(16, 16, 16))


@model
def densenet() -> Model:
    torch, nn = pytorch()

    class Layer(nn.Module):
        """A norm and convolutions, whose result is joined to the input."""

        def __init__(self, c: int, growth: int) -> None:
            super().__init__()
            self.norm1, self.conv1 = nn.BatchNorm2d(c), nn.Conv2d(c, 4 * growth, 1, bias=False)
            self.norm2 = nn.BatchNorm2d(4 * growth)
            self.conv2 = nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)

        def forward(self, x: Any) -> Any:
            y = self.conv1(self.norm1(x).relu())
            return torch.cat([x, self.conv2(self.norm2(y).relu())], 1)

    layers = nn.Sequential(*[Layer(16 + 8 * k, 8) for k in range(3)])
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(40, 10))
    stem = nn.Sequential(nn.Conv2d(3, 16, 7, 2, 3), nn.MaxPool2d(3, 2, 1))
    return image(nn.Sequential(stem, layers, nn.AvgPool2d(2), head), "input")


@model
def mixer() -> Model:
    _, nn = pytorch()

    class Mixer(nn.Module):
        """Layers that mix positions and channels in turn."""

        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Conv2d(3, 24, 8, 8)
            self.norms = nn.ModuleList(nn.LayerNorm(24) for _ in range(4))
            self.across = nn.ModuleList(nn.Linear(16, 16) for _ in range(2))
            self.within = nn.ModuleList(nn.Linear(24, 24) for _ in range(2))

        def forward(self, x: Any) -> Any:
            x = self.stem(x).flatten(2).transpose(1, 2)
            for k in range(2):
                y = self.across[k](self.norms[2 * k](x).transpose(1, 2))
                x = x + nn.functional.gelu(y).transpose(1, 2)
                x = x + nn.functional.gelu(self.within[k](self.norms[2 * k + 1](x)))
            return x.mean(1)

    return image(Mixer(), "x")
