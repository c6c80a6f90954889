"""Graphs that are drawn: small ones, models, random ones with scopes, one with hostile names."""

from __future__ import annotations

import random

import luminal_lab as ll
from luminal_lab.core.dtypes import as_dtype
from luminal_lab.core.ir import IR, Derivation, Meta, Node, Table
from luminal_lab.core.op import TensorType
from luminal_lab.core.ops import Call, Input, Sin
from luminal_lab.core.origin import Origin
from luminal_lab.nn import models

HOSTILE = "<script>alert(1)</script>\"'&\x07]]>"


def softmax(cx: ll.Graph | None = None) -> ll.Graph:
    cx = cx or ll.Graph("softmax")
    cx.tensor((4, 8), name="x").softmax(-1).retrieve()
    return cx


def gpt2(layers: int = 12) -> ll.Graph:
    cx = ll.Graph("gpt2")
    tokens = cx.tensor((1, 16), dtype="int64", name="tokens")
    model = models.GPT2(layers=layers, heads=2, width=32, vocab=50, context=32)
    model(tokens).retrieve()
    return cx


def trained_mlp() -> ll.Graph:
    cx = ll.Graph("mlp")
    model = models.MLP(4, 16, 3)
    loss = (model(cx.tensor((8, 4), name="x")) ** 2).mean().retrieve()
    loss.backward()
    for name in cx.parameters:
        cx[name].grad.retrieve()
    return cx


def some_graph(seed: int, size: int = 40) -> ll.Graph:
    """Return a graph with scopes in which anything reads anything before it."""
    draw = random.Random(seed)
    cx = ll.Graph(f"random_{seed}")
    known = [cx.tensor((4, 4), name=f"x{k}") for k in range(draw.randint(1, 3))]
    scopes = ["a", "b", "a.c", "a.d", "b.c.e", ""]
    for _ in range(size):
        one, other = draw.choice(known), draw.choice(known[-6:])
        scope = draw.choice(scopes)
        with cx.scope(scope) if scope else cx.scope("z"):
            match draw.randint(0, 5):
                case 0:
                    made = one + other
                case 1:
                    made = one.T * other
                case 2:
                    made = one.sum(0, keepdim=True).expand(4, 4)
                case 3:
                    made = one.exp2()
                case 4:
                    made = one * draw.random()
                case _:
                    made = other.maximum(one)
        known.append(made)
    for one in known[-2:]:
        one.retrieve()
    return cx


def hostile() -> IR:
    """Return a graph whose every text would run a script if it were let."""
    kind = TensorType(as_dtype("float32"), (2,))
    origin = Origin(HOSTILE, 1, HOSTILE)
    made = Derivation(HOSTILE, (0,))
    table = Table()
    nodes = [
        Node(0, Input(kind.dtype, kind.shape), (), kind, (), Meta(HOSTILE, origin, HOSTILE)),
        Node(1, Sin(), (0,), kind, (), Meta(f"{HOSTILE}1", origin, f"{HOSTILE}.a", made)),
    ]
    for node in nodes:
        table.append(node)
    body = IR(table, [0], [1], name=HOSTILE)
    whole = Table()
    whole.append(nodes[0])
    whole.append(Node(1, Call(body), (0,), kind, (), Meta(f"{HOSTILE}2", origin, HOSTILE, made)))
    whole.append(nodes[1]._replace(id=2, sources=(1,)))
    return IR(whole, [0], [2], name=HOSTILE)
