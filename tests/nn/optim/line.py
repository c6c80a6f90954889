"""A model so small that its training can be followed by hand."""

import luminal_lab as ll
from luminal_lab import nn


class Line(nn.Module):
    """y = a x + b, and something that is not trained."""

    def __init__(self):
        self.a = nn.Parameter((), value=2.0)
        self.b = nn.Parameter((), value=1.0)
        self.fixed = nn.Parameter((), value=1.0, trainable=False)
        self.unused = nn.Parameter((), value=7.0)

    def forward(self, x):
        return (x * self.a + self.b) * self.fixed


def task(name="main"):
    """Return a graph, the loss of a line in it, and the line."""
    cx, line = ll.Graph(name), Line()
    x = cx.tensor((3,), name="x").set([1.0, 2.0, 3.0])
    return cx, nn.mse_loss(line(x), [0.0, 0.0, 0.0]).named("loss"), line


def values(line):
    return [p.value.item() for p in (line.a, line.b, line.fixed, line.unused)]
