"""Modules: layers and models whose parameters any number of graphs borrow."""

from typing import NoReturn

from luminal_lab.core.origin import here
from luminal_lab.errors import UnknownNameError, nearest
from luminal_lab.nn import init, losses, models, schedules
from luminal_lab.nn.activation import (
    CELU,
    ELU,
    GELU,
    GLU,
    SELU,
    Hardshrink,
    Hardsigmoid,
    Hardswish,
    Hardtanh,
    LeakyReLU,
    LogSigmoid,
    LogSoftmax,
    Mish,
    PReLU,
    ReLU,
    ReLU6,
    Sigmoid,
    SiLU,
    Softmax,
    Softmin,
    Softplus,
    Softshrink,
    Softsign,
    Tanh,
    Tanhshrink,
    Threshold,
)
from luminal_lab.nn.attention import MultiheadAttention
from luminal_lab.nn.cache import KVCache
from luminal_lab.nn.checkpoint import load_state, save_state
from luminal_lab.nn.clip import clip_grad_norm, clip_grad_value, grad_norm
from luminal_lab.nn.conv import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from luminal_lab.nn.dropout import Dropout, Dropout1d, Dropout2d, Dropout3d
from luminal_lab.nn.embedding import Embedding
from luminal_lab.nn.linear import Bilinear, Linear
from luminal_lab.nn.losses import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cosine_embedding_loss,
    cross_entropy,
    gaussian_nll_loss,
    hinge_embedding_loss,
    huber_loss,
    kl_div,
    l1_loss,
    mae_loss,
    margin_ranking_loss,
    mse_loss,
    multilabel_soft_margin_loss,
    nll_loss,
    poisson_nll_loss,
    rmse_loss,
    smooth_l1_loss,
    soft_margin_loss,
    triplet_margin_loss,
)
from luminal_lab.nn.module import Module
from luminal_lab.nn.norm import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    GroupNorm,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
    LayerNorm,
    RMSNorm,
)
from luminal_lab.nn.optim import LAMB, SGD, Adam, AdamW, Muon, Optimiser
from luminal_lab.nn.pool import (
    AdaptiveAvgPool1d,
    AdaptiveAvgPool2d,
    AdaptiveAvgPool3d,
    AdaptiveMaxPool1d,
    AdaptiveMaxPool2d,
    AdaptiveMaxPool3d,
    AvgPool1d,
    AvgPool2d,
    AvgPool3d,
    MaxPool1d,
    MaxPool2d,
    MaxPool3d,
)
from luminal_lab.nn.recurrent import GRU, LSTM, RNN, GRUCell, LSTMCell, RNNCell
from luminal_lab.nn.rope import (
    DynamicScaling,
    FactorScaling,
    LinearScaling,
    Llama3Scaling,
    RotaryEmbedding,
    YarnScaling,
)
from luminal_lab.nn.sequential import Flatten, Identity, Sequential, Unflatten
from luminal_lab.nn.transformer import (
    Transformer,
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)
from luminal_lab.tensor.arguments import told_public
from luminal_lab.tensor.parameter import Parameter

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "GRU",
    "LAMB",
    "LSTM",
    "RNN",
    "SELU",
    "SGD",
    "Adam",
    "AdamW",
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "Bilinear",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "Dropout3d",
    "DynamicScaling",
    "Embedding",
    "FactorScaling",
    "Flatten",
    "GRUCell",
    "GroupNorm",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "Identity",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "KVCache",
    "LSTMCell",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "LinearScaling",
    "Llama3Scaling",
    "LogSigmoid",
    "LogSoftmax",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "Mish",
    "Module",
    "MultiheadAttention",
    "Muon",
    "Optimiser",
    "PReLU",
    "Parameter",
    "RMSNorm",
    "RNNCell",
    "ReLU",
    "ReLU6",
    "RotaryEmbedding",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
    "Unflatten",
    "YarnScaling",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "clip_grad_norm",
    "clip_grad_value",
    "cosine_embedding_loss",
    "cross_entropy",
    "gaussian_nll_loss",
    "grad_norm",
    "hinge_embedding_loss",
    "huber_loss",
    "init",
    "kl_div",
    "l1_loss",
    "load_state",
    "losses",
    "mae_loss",
    "margin_ranking_loss",
    "models",
    "mse_loss",
    "multilabel_soft_margin_loss",
    "nll_loss",
    "poisson_nll_loss",
    "rmse_loss",
    "save_state",
    "schedules",
    "smooth_l1_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
]

for _name in __all__:
    globals()[_name] = told_public(globals()[_name], "nn.")

INSTEAD = {
    "BCELoss": "losses are functions: nn.binary_cross_entropy(p, target)",
    "BCEWithLogitsLoss": "losses are functions: nn.binary_cross_entropy_with_logits(logits, "
    "target)",
    "Buffer": "a parameter that is not trained: nn.Parameter(shape, trainable=False)",
    "CosineEmbeddingLoss": "losses are functions: nn.cosine_embedding_loss(first, second, target)",
    "CosineSimilarity": "tensors have it as a method: a.cosine_similarity(b)",
    "CrossEntropyLoss": "losses are functions: nn.cross_entropy(logits, target)",
    "GaussianNLLLoss": "losses are functions: nn.gaussian_nll_loss(prediction, target, var)",
    "HingeEmbeddingLoss": "losses are functions: nn.hinge_embedding_loss(prediction, target)",
    "HuberLoss": "losses are functions: nn.huber_loss(prediction, target)",
    "KLDivLoss": "losses are functions: nn.kl_div(prediction, target)",
    "L1Loss": "losses are functions: nn.l1_loss(prediction, target)",
    "MSELoss": "losses are functions: nn.mse_loss(prediction, target)",
    "MarginRankingLoss": "losses are functions: nn.margin_ranking_loss(first, second, target)",
    "ModuleDict": "a plain dict in an attribute is found: self.parts = {...}",
    "ModuleList": "a plain list in an attribute is found: self.layers = [...]",
    "NLLLoss": "losses are functions: nn.nll_loss(log_probabilities, target)",
    "ParameterDict": "a plain dict in an attribute is found: self.weights = {...}",
    "ParameterList": "a plain list in an attribute is found: self.weights = [...]",
    "PixelShuffle": "tensors have it as a method: x.pixel_shuffle(factor)",
    "SmoothL1Loss": "losses are functions: nn.smooth_l1_loss(prediction, target)",
    "TripletMarginLoss": "losses are functions: nn.triplet_margin_loss(anchor, positive, negative)",
    "Upsample": "tensors have it as a method: x.interpolate(...)",
    "functional": "tensors have them as methods: x.relu(), x.conv2d(weight); losses are "
    "nn.cross_entropy and its like",
    "utils": "nn.clip_grad_norm(gradients, limit) and nn.clip_grad_value(gradients, limit) clip",
}
"""Replacements for names that only PyTorch's nn has."""


def __getattr__(name: str) -> NoReturn:
    """Raise for an unknown name, with the nearest known one."""
    if name[:2] == "__":
        raise AttributeError(name)
    ours = {known.lower(): known for known in reversed(__all__)}
    same = ours.get(name.lower())
    raise UnknownNameError(
        f"nn has no {name!r}",
        where=str(here() or "") or None,
        hint=INSTEAD.get(name)
        or (f"did you mean {same!r}?" if same else nearest(name, __all__))
        or "dir(nn) lists what it has",
    )
