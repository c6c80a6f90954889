"""Models: published ones by name or in any size, and small ones to learn with."""

from luminal_lab.nn.models.cnn import CNN
from luminal_lab.nn.models.decoder import Decoder, DecoderConfig
from luminal_lab.nn.models.diffusion import UNet, UNetConfig
from luminal_lab.nn.models.encoder import Encoder, EncoderConfig
from luminal_lab.nn.models.gpt2 import GPT2
from luminal_lab.nn.models.llama import Llama
from luminal_lab.nn.models.mlp import MLP
from luminal_lab.nn.models.whisper import Whisper, WhisperConfig

__all__ = [
    "CNN",
    "GPT2",
    "MLP",
    "Decoder",
    "DecoderConfig",
    "Encoder",
    "EncoderConfig",
    "Llama",
    "UNet",
    "UNetConfig",
    "Whisper",
    "WhisperConfig",
]
