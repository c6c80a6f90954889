"""A small language model with lists, tuples, dicts, tied parts and a buffer."""

from luminal_lab import nn


class Attention(nn.Module):
    def __init__(self, size):
        self.q = nn.Linear(size, size)
        self.k = nn.Linear(size, size, bias=False)

    def forward(self, x):
        return self.q(x) * self.k(x)


class TinyGPT(nn.Module):
    def __init__(self, size=4, layers=3):
        self.embed = nn.Embedding(10, size)
        self.blocks = [Attention(size) for _ in range(layers)]
        self.heads = {"first": nn.Linear(size, 2), "again": (nn.ReLU(), nn.Linear(size, 2))}
        self.scale = nn.Parameter((size,), init=nn.init.ones)
        self.seen = nn.Parameter((), "int64", init=nn.init.zeros, trainable=False)
        self.tied = self.embed
        self.size = size

    def forward(self, tokens):
        x = self.embed(tokens) * self.scale
        for block in self.blocks:
            x = x + block(x)
        return self.heads["first"](x)
