"""The next token of a text: `Sampler` draws one from logits, in NumPy.

    bias → repetition, presence, frequency → temperature → top-k → top-p → min-p → a draw

The filters have transformers' order and meaning, each looking at what the ones before it left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import signature
from math import inf, isfinite
from typing import Any, Final, NoReturn, TypeAlias, cast

import numpy as np
from typing_extensions import override

from luminal_lab.core.dtypes import Array
from luminal_lab.core.op import tuple_text
from luminal_lab.errors import ArgumentError, expect, real_number, whole_number
from luminal_lab.reading import shown

Numbers: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.float64]]"
Ids: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.int64]]"
FIRST_LOOK: Final = 1 << 10
"""How many of the likeliest tokens are sorted for top-p before more are."""
MORE: Final = 8
"""How many times as many tokens are looked at next."""


class Sampler:
    """A way to choose the next token; without a temperature, or with 0, it is the likeliest one.

    `top_k` keeps the k likeliest tokens; `top_p` the fewest likeliest ones that reach this
    probability together; `min_p` those with at least this share of the likeliest one's. A
    `repetition_penalty` above 1 makes what is in the text already less likely; the other two are
    subtracted from its logits: `presence_penalty` once, `frequency_penalty` for each time.
    `logit_bias` is added to the logits of some tokens by their ids. The same `seed` draws the same.

    >>> import numpy as np
    >>> from luminal_lab.language.sampling import Sampler
    >>> logits = np.log(np.array([0.1, 0.6, 0.3]))
    >>> Sampler().pick(logits, [])
    (1, -0.510825623765990...)
    >>> sampler = Sampler(temperature=1, top_k=2, seed=0)
    >>> sorted({sampler.pick(logits, [])[0] for _ in range(100)})
    [1, 2]
    """

    def __init__(
        self,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        repetition_penalty: float = 1.0,
        presence_penalty: float = 0.0,
        frequency_penalty: float = 0.0,
        logit_bias: Mapping[int, float] | None = None,
        seed: int | None = None,
    ) -> None:
        wanted = 0.0 if temperature is None else temperature
        self.temperature = _number("temperature", wanted, "0 or more; 0 is the likeliest", 0)
        self.top_k = top_k if top_k is None else _whole("top_k", top_k, 1)
        self.top_p = top_p if top_p is None else _number("top_p", top_p, "above 0, up to 1", 0, 1)
        self.min_p = min_p if min_p is None else _number("min_p", min_p, "from 0 to 1", 0, 1)
        if self.top_p == 0:
            _refuse("top_p", top_p, "above 0, up to 1")
        hint = "above 0; 1 changes nothing"
        self.repetition_penalty = _number("repetition_penalty", repetition_penalty, hint, 0)
        if self.repetition_penalty == 0:
            _refuse("repetition_penalty", repetition_penalty, hint)
        self.presence_penalty = _number("presence_penalty", presence_penalty, "a number")
        self.frequency_penalty = _number("frequency_penalty", frequency_penalty, "a number")
        self.logit_bias = {} if logit_bias is None else _biases(logit_bias)
        self.seed = seed if seed is None else _whole("seed", seed, 0)
        if temperature is None:
            given = {"top_k": top_k, "top_p": top_p, "min_p": min_p, "seed": seed}
            for name in (name for name, value in given.items() if value is not None):
                raise ArgumentError(
                    f"generate: {name}={given[name]} without a temperature changes nothing: the "
                    "likeliest token is taken each time",
                    hint=f"give temperature=1.0, so that tokens are drawn, or leave {name} out",
                )
        self._random = np.random.default_rng(self.seed)

    @override
    def __repr__(self) -> str:
        usual = signature(Sampler).parameters
        options = {name: getattr(self, name) for name in usual}
        given = [f"{n}={v!r}" for n, v in options.items() if v and v != usual[n].default]
        return f"Sampler({', '.join(given)})"

    def pick(self, logits: Array, text: Sequence[int], *, prompt: int = 0) -> tuple[int, float]:
        """Return the next token of a text, and the logarithm of its probability.

        `logits` [vocabulary] may be of any dtype. `text` are the ids so far; the first `prompt` of
        them count as repeated, but for neither presence nor frequency. The probability is what
        the model says, before any of the options.

        >>> import numpy as np
        >>> from luminal_lab.language.sampling import Sampler
        >>> Sampler(repetition_penalty=2.0).pick(np.array([3.0, 2.0]), [0])[0]
        1
        """
        given = _checked(logits)
        ids, weights = self._left(given, text, prompt)
        sums = weights.cumsum()
        drawn = 0.0
        if len(ids) > 1:
            drawn = min(self._random.random() * sums[-1], np.nextafter(sums[-1], 0))
        id = int(ids[np.count_nonzero(sums <= drawn)])
        top = given.max()
        return id, float(given[id] - top - np.log(np.exp(given - top).sum()))

    def chances(self, logits: Array, text: Sequence[int], *, prompt: int = 0) -> Numbers:
        """Return the probabilities [vocabulary] by which `pick` draws.

        >>> import numpy as np
        >>> from luminal_lab.language.sampling import Sampler
        >>> Sampler(temperature=0.5, top_p=0.9).chances(np.log([0.1, 0.6, 0.3]), []).round(2)
        array([0. , 0.8, 0.2])
        """
        given = _checked(logits)
        ids, weights = self._left(given, text, prompt)
        chances = np.zeros(len(given))
        chances[ids] = weights / weights.sum()
        return chances

    def _penalised(self, given: Numbers, text: Sequence[int], prompt: int) -> Numbers:
        """Return the logits with biases added, and what is there already made less likely."""
        x = given.copy()
        for id, bias in self.logit_bias.items():
            if id >= len(x):
                raise ArgumentError(
                    f"generate: logit_bias has the token {id:,}, and the model knows {len(x):,}",
                    hint=f"they count from 0 to {len(x) - 1:,}",
                )
            x[id] += bias
        if self.repetition_penalty != 1 or self.presence_penalty or self.frequency_penalty:
            ids = _ids(text, len(x))
            start = ArgumentError.unless_number(
                prompt, f"pick: prompt is {prompt!r}", "give how many ids are of the prompt"
            )
            seen = np.unique(ids)
            penalty = self.repetition_penalty
            x[seen] = np.where(x[seen] > 0, x[seen] / penalty, x[seen] * penalty)
            made, counts = np.unique(ids[start:], return_counts=True)
            x[made] -= self.presence_penalty + self.frequency_penalty * counts
        if np.isneginf(x.max()):
            raise ArgumentError(
                "pick: no token is left: all logits are -inf",
                hint="logit_bias or what made the logits excludes every token",
            )
        return x

    def _left(self, given: Numbers, text: Sequence[int], prompt: int) -> tuple[Ids, Numbers]:
        """Return the ids that the filters keep, and weights in proportion to probabilities."""
        x = self._penalised(given, text, prompt)
        if self.temperature == 0:
            return np.array([x.argmax()]), np.ones(1)
        with np.errstate(over="ignore"):  # what is far below becomes -inf
            x = (x - x.max()) / self.temperature
        ids = np.arange(len(x))
        if self.top_k is not None and self.top_k < len(x):
            least = np.partition(x, -self.top_k)[-self.top_k]
            ids = np.flatnonzero(x >= least)  # with all that are as likely as the last
        weights = np.exp(x[ids])
        if self.top_p is not None and self.top_p < 1:
            kept = _likeliest(weights, self.top_p)
            ids, weights = ids[kept], weights[kept]
        if self.min_p:
            kept = weights >= self.min_p * weights.max()
            ids, weights = ids[kept], weights[kept]
        return ids, weights


def _likeliest(weights: Numbers, share: float) -> Ids:
    """Return the positions of the fewest largest weights with such a share of the sum, sorted."""
    wanted, count = share * weights.sum(), FIRST_LOOK
    while True:
        if count < len(weights):
            least = np.partition(weights, -count)[-count]
            some = np.flatnonzero(weights >= least)
        else:
            some = np.arange(len(weights))
        order = some[np.argsort(-weights[some], kind="stable")]
        sums = weights[order].cumsum()
        if sums[-1] >= wanted or len(some) == len(weights):
            return np.sort(order[: np.searchsorted(sums, wanted) + 1])
        count *= MORE


def _checked(logits: Array) -> Numbers:
    """Return logits as float64, of which at least one is a number and none is NaN or inf."""
    expect(logits, np.ndarray, "pick: logits are {}", "give an array, one number a token")
    if logits.ndim != 1 or not logits.size:
        raise ArgumentError(
            f"pick: logits are {tuple_text(logits.shape)}, and must be one number a token",
            hint="as in logits[0, -1], those of the last position",
        )
    try:
        x = logits.astype("float64")
    except (TypeError, ValueError):
        raise ArgumentError(
            f"pick: logits are of {logits.dtype}", hint="give numbers, one a token"
        ) from None
    top = x.max()
    if not isfinite(top):
        if np.isneginf(top):
            raise ArgumentError(
                "pick: no token is left: all logits are -inf",
                hint="what made the logits excludes every token",
            )
        odd = np.flatnonzero(~(x < inf))
        what = "NaN" if np.isnan(x[odd[0]]) else "inf"
        raise ArgumentError(
            f"pick: {len(odd):,} of {len(x):,} logits are NaN or inf; that of token {odd[0]:,} is "
            f"{what}",
            hint="a model whose weights are wrong, or float16 that overflows, makes such",
        )
    return x


def _ids(text: Sequence[int], count: int) -> Ids:
    """Return the ids of a text, which are all in the vocabulary."""
    ids: Any = np.asarray(text)
    if not ids.size:
        return np.zeros(0, "int64")
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise ArgumentError(f"pick: text is {shown(text)}", hint="give the ids of its tokens")
    low, high = int(ids.min()), int(ids.max())
    if low < 0 or high >= count:
        raise ArgumentError(
            f"pick: text has the token {low if low < 0 else high:,}, and there are {count:,}",
            hint="text are the ids so far, of the model's own vocabulary",
        )
    return ids


def _refuse(name: str, value: object, allowed: str) -> NoReturn:
    raise ArgumentError(f"generate: {name} is {shown(value)}", hint=f"it is {allowed}")


def _number(name: str, value: object, allowed: str, low: float = -inf, high: float = inf) -> float:
    number = real_number(value)
    if number is None or not isfinite(number) or not low <= number <= high:
        _refuse(name, value, allowed)
    return number


def _whole(name: str, value: object, least: int) -> int:
    number = whole_number(value)
    if number is None or number < least:
        _refuse(name, value, f"a whole number, {least} or more; leave it out for none")
    return number


def _biases(given: object) -> dict[int, float]:
    """Return numbers by ids."""
    if not isinstance(given, Mapping):
        _refuse("logit_bias", given, "a number by the id of a token, as in {50256: -100}")
    biases: dict[int, float] = {}
    for name, value in cast("Mapping[object, object]", given).items():
        id, bias = whole_number(name), real_number(value)
        if id is None or id < 0:
            _refuse("logit_bias", name, "a number by the id of a token; this is no id")
        if bias is None or not (isfinite(bias) or bias == -inf):
            _refuse(f"logit_bias of token {id:,}", value, "a number, or -inf")
        biases[id] = bias
    return biases
