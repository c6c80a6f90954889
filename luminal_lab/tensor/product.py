"""Products: matmul, einsum and their relatives, all built on one function, `contract`."""

from __future__ import annotations

# The functions of this file use private members of its class.
# pyright: reportPrivateUsage=false
import re
from collections.abc import Sequence
from functools import cache, reduce
from typing import Self, TypeAlias, TypeVar

from luminal_lab.core.dims import Dim, Expr
from luminal_lab.core.dtypes import DType, promote_all
from luminal_lab.core.op import Scalar, tuple_text
from luminal_lab.core.ops import Permute, SumReduce
from luminal_lab.errors import AxisError, DTypeError, ShapeError
from luminal_lab.tensor.arguments import told
from luminal_lab.tensor.arithmetic import MUL, Operand
from luminal_lab.tensor.functions import widened
from luminal_lab.tensor.joining import lead
from luminal_lab.tensor.lazy import Lazy
from luminal_lab.tensor.movement import listed, whole
from luminal_lab.tensor.operation import operation
from luminal_lab.tensor.sized import Sized

Labels: TypeAlias = Sequence[str]
T = TypeVar("T", bound="MatrixProducts")


class MatrixProducts(Sized):
    """Sums of products."""

    __slots__ = ()

    def other(self, what: str, value: Operand, *ranks: int) -> Self:
        """Return an operand as a tensor, or raise; any given ranks are required.

        >>> cx.tensor((3,)).other("dot", [4, 5, 6], 1).shape
        (3,)
        """
        tensor = self._operand(value)
        if not isinstance(tensor, Lazy):
            raise DTypeError(f"{what}: {value!r} is not a tensor", hint="use * for multiples")
        tensor._check_rank(what, *ranks)
        return tensor

    def _check_rank(self, what: str, *ranks: int) -> None:
        """Raise unless the rank is one of those given, if any are."""
        if ranks and self.ndim not in ranks:
            wanted = " or ".join(map(str, ranks))
            raise ShapeError(
                f"{what}: needs {wanted} axes, but {self.label} has {self.ndim}",
                hint="reshape or unsqueeze it first",
            )

    @operation
    def matmul(self, other: Operand) -> Self:
        """Return the matrix product; axes before the last two are batches, and broadcast.

        >>> a, b = cx.tensor((3, 4), name="a"), cx.tensor((4, 5), name="b")
        >>> print(a.matmul(b).lowering())
        %2 = reshape{shape = [3, 1, 4]} %a : f32[3, 1, 4]
        %3 = expand{shape = [3, 5, 4]} %2 : f32[3, 5, 4]
        %4 = permute{axes = [1, 0]} %b : f32[5, 4]
        %5 = reshape{shape = [1, 5, 4]} %4 : f32[1, 5, 4]
        %6 = expand{shape = [3, 5, 4]} %5 : f32[3, 5, 4]
        %7 = mul %3, %6 : f32[3, 5, 4]
        %8 = sum_reduce{axis = 2} %7 : f32[3, 5, 1]
        %9 = reshape{shape = [3, 5]} %8 : f32[3, 5]
        """
        y = self.other("matmul", other)
        for side in (self, y):
            if not side.ndim:
                raise ShapeError(
                    f"matmul: {side.label} has no axes", hint="use * to multiply by a number"
                )
        inner, meets = self.shape[-1], y.shape[-2:][0]
        if inner != meets:
            raise ShapeError(
                f"matmul: the inner dims differ: %{self.name} is {tuple_text(self.shape)} and "
                f"%{y.name} is {tuple_text(y.shape)}, so {inner} meets {meets}",
                hint=_transposing(self, y),
            )
        batch = [f"axis {axis}" for axis in range(-max(self.ndim, y.ndim), -2)]
        rows, columns = ["m"][: self.ndim - 1], ["n"][: y.ndim - 1]
        left = [*batch[len(batch) + 2 - max(self.ndim, 2) :], *rows, "k"]
        right = [*batch[len(batch) + 2 - max(y.ndim, 2) :], "k", *columns]
        return contract("matmul", [*batch, *rows, *columns], (self, left), (y, right))

    __matmul__ = matmul

    @operation
    def __rmatmul__(self, other: Operand) -> Self:
        return self.other("matmul", other).matmul(self)

    @operation
    def dot(self, other: Operand) -> Self:
        """Return the inner product of two vectors.

        >>> x = cx.arange(1, 4)
        >>> y = x.dot(x).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        14
        """
        self._check_rank("dot", 1)
        return self.matmul(self.other("dot", other, 1))

    @operation
    def mm(self, other: Operand) -> Self:
        """Return the product of two matrices.

        >>> x = cx.arange(4).reshape(2, 2)
        >>> y = x.mm(x).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [[2, 3], [6, 11]]
        """
        self._check_rank("mm", 2)
        return self.matmul(self.other("mm", other, 2))

    @operation
    def bmm(self, other: Operand) -> Self:
        """Return the products of two batches of matrices.

        >>> cx.tensor((8, 2, 3)).bmm(cx.tensor((8, 3, 4))).shape
        (8, 2, 4)
        """
        self._check_rank("bmm", 3)
        return self.matmul(self.other("bmm", other, 3))

    @operation
    def mv(self, other: Operand) -> Self:
        """Return the product of a matrix and a vector.

        >>> y = cx.arange(6).reshape(2, 3).mv(cx.arange(3)).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [5, 14]
        """
        self._check_rank("mv", 2)
        return self.matmul(self.other("mv", other, 1))

    vdot = dot

    @operation
    def addmm(self, left: Lazy, right: Operand, *, beta: Scalar = 1, alpha: Scalar = 1) -> Self:
        """Return beta · x + alpha · (left @ right).

        >>> x, eye = cx.arange(4.0).reshape(2, 2), cx.eye(2)
        >>> y = eye.addmm(x, x, beta=100, alpha=2).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [[104.0, 6.0], [12.0, 122.0]]
        """
        product = self.other("addmm", left).matmul(right)
        product = product if alpha == 1 else product * alpha
        return product if beta == 0 else product + (self if beta == 1 else self * beta)

    baddbmm = addmv = addmm

    @operation
    def outer(self, other: Operand) -> Self:
        """Return the outer product of two vectors.

        >>> y = cx.arange(1, 4).outer(cx.arange(1, 5)).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [[1, 2, 3, 4], [2, 4, 6, 8], [3, 6, 9, 12]]
        """
        self._check_rank("outer", 1)
        return self.unsqueeze(1) * self.other("outer", other, 1)

    @operation
    def inner(self, other: Operand) -> Self:
        """Return the sums of products along the last axes of both.

        >>> x = cx.arange(6).reshape(2, 3)
        >>> y = x.inner(x).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [[5, 14], [14, 50]]
        """
        y = self.other("inner", other)
        return self.tensordot(y, ([-1], [-1])) if self.ndim and y.ndim else self * y

    @operation
    def tensordot(
        self, other: Operand, dims: int | tuple[Sequence[int], Sequence[int]] = 2
    ) -> Self:
        """Return the sums of products over pairs of axes.

        `dims` are two lists of axes, or the number of last axes to pair with the other's first.

        >>> cx.tensor((2, 3, 4)).tensordot(cx.tensor((4, 3, 5)), ([1, 2], [1, 0])).shape
        (2, 5)
        """
        y = self.other("tensordot", other)
        if not isinstance(dims, Sequence):
            count = whole("tensordot: the number of axes", dims, 0)
            dims = range(self.ndim - count, self.ndim), range(count)
        pairs = [
            [t._axis_of("tensordot", axis) for axis in listed((axes,))]
            for t, axes in zip((self, y), dims, strict=False)
        ]
        left, right = [f"{k}" for k in range(self.ndim)], [f"other {k}" for k in range(y.ndim)]
        if (
            len(dims) != 2
            or len({*map(len, pairs)}) > 1
            or any(len(set(a)) < len(a) for a in pairs)
        ):
            raise AxisError(
                f"tensordot: {dims} are not pairs of axes of {self.label} and {y.label}",
                hint="give two lists, as many axes of one as of the other, and each once",
            )
        for a, b in zip(*pairs, strict=True):
            right[b] = left[a]
            if self.shape[a] != y.shape[b] and 1 not in (self.shape[a], y.shape[b]):
                raise ShapeError(
                    f"tensordot: axis {a} of {self.label} is {self.shape[a]}, and axis {b} of "
                    f"{y.label} is {y.shape[b]}",
                    hint="pair axes of equal sizes",
                )
        shared = {*left} & {*right}
        result = [label for label in (*left, *right) if label not in shared]
        return contract("tensordot", result, (self, left), (y, right))

    @operation
    def kron(self, other: Operand) -> Self:
        """Return the Kronecker product: each element of the first tensor times the second.

        >>> y = cx.eye(2, dtype="int32").kron([[1, 2]]).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [[1, 2, 0, 0], [0, 0, 1, 2]]
        """
        y = self.other("kron", other)
        rank = max(self.ndim, y.ndim)
        a, b = ((1,) * (rank - t.ndim) + t.shape for t in (self, y))
        x = self._viewed(tuple(dim for size in a for dim in (size, 1)))
        y = y._viewed(tuple(dim for size in b for dim in (1, size)))
        return (x * y)._viewed(tuple(p * q for p, q in zip(a, b, strict=True)))

    @operation
    def cross(self, other: Operand, axis: int = -1) -> Self:
        """Return the cross product along an axis, whose three positions are x, y and z.

        >>> x = cx.tensor((3,)).set([1, 0, 0])
        >>> y = x.cross([0, 1, 0]).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [0.0, 0.0, 1.0]
        """
        x, y = self._together("cross", other)
        along = x._axis_of("cross", axis)
        if x.shape[along] != 3:
            raise ShapeError(
                f"cross: axis {along} of {x.label} has size {x.shape[along]} and not 3",
                hint="name the axis of x, y and z",
            )
        a, b = ([t.roll(-1, along), t.roll(-2, along)] for t in (x, y))
        return a[0] * b[1] - a[1] * b[0]

    @operation
    def linear(self, weight: Operand, bias: Operand | None = None) -> Self:
        """Return x @ weight.T + bias, with the weight as [out, in].

        >>> cx.tensor((2, 3)).linear(cx.tensor((4, 3))).op_counts()
        {'expand': 2, 'mul': 1, 'reshape': 3, 'sum_reduce': 1}
        """
        w = self.other("linear", weight, 1, 2)
        if not self.ndim or self.shape[-1] != w.shape[-1]:
            raise ShapeError(
                f"linear: the last axes differ: {self.label} and the weight {w.label}",
                hint="the weight is [out, in], and x is [..., in]",
            )
        lead, out = [f"axis {k}" for k in range(self.ndim - 1)], ["out"][: w.ndim - 1]
        terms = (self, [*lead, "in"]), (w, [*out, "in"])
        x = contract("linear", [*lead, *out], *terms, wide=True)
        return x._biased("linear", bias, range(len(lead), x.ndim), self, w)

    def _biased(self, what: str, bias: Operand | None, axes: Sequence[int], *factors: Self) -> Self:
        """Return this product plus a bias on some axes, in the common dtype of the factors."""
        x = self if bias is None else self + self._aligned(what, "bias", bias, axes)
        return x.cast(promote_all([(factor.dtype, factor.ndim) for factor in factors]))

    @operation
    def bilinear(self, other: Operand, weight: Operand, bias: Operand | None = None) -> Self:
        """Return x · weight[k] · y for every k, plus a bias; the weight is [out, in1, in2].

        >>> x, z, weight = cx.arange(1, 3), cx.arange(2), cx.ones((1, 2, 2), "int64")
        >>> y = x.bilinear(z, weight).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [3]
        """
        y, w = self.other("bilinear", other), self.other("bilinear", weight, 3)
        result = _einsum("...i,oij,...j->...o", [self, w, y], "bilinear")
        return result if bias is None else result + bias


def _transposing(a: MatrixProducts, b: MatrixProducts) -> str:
    for this, fits, which in (
        (b, b.shape[-1] == a.shape[-1], "the other one"),
        (a, a.shape[-2:][0] == b.shape[-2:][0], "the first one"),
    ):
        if this.ndim > 1 and fits:
            *batch, rows, columns = this.shape
            name = f"%{this.name}.{'mT' if batch else 'T'}"
            shape = tuple_text((*batch, columns, rows))
            return f"{name} is {shape}; did you mean to transpose {which}?"
    where = "first" if b.ndim == 1 else "second to last"
    return f"the last axis of one must be as long as the {where} of the other"


def contract(
    what: str,
    result: Labels,
    *terms: tuple[T, Labels],
    wide: bool = False,
) -> T:
    """Return the sum of products of tensors with labelled axes over all labels not in the result.

    Each tensor is viewed with all labels as its axes, summed ones last; then the views are
    multiplied and reduced. Compilers and the interpreter avoid storing the products.
    A `wide` result of 16-bit floats is left in float32.
    """
    dims: dict[str, Dim] = dict.fromkeys(result, 1)
    source = dict.fromkeys(result, terms[0][0])
    for tensor, labels in terms:
        for label, dim in zip(labels, tensor.shape, strict=True):
            if dims.setdefault(label, 1) == 1:
                dims[label], source[label] = dim, tensor
            elif dim not in (1, dims[label]):
                raise ShapeError(
                    f"{what}: {label} is {dims[label]} in {source[label].label} and {dim} in "
                    f"{tensor.label}",
                    hint="the sizes must be equal, or 1",
                )
    dtype = promote_all([(tensor.dtype, tensor.ndim) for tensor, _ in terms])
    if dtype is DType.bool_:
        raise DTypeError(
            f"{what}: needs numbers, but {terms[0][0].label} is bool",
            hint='convert it first, as in x.cast("int64")',
        )
    order, shape = list(dims), tuple(dims.values())
    factors = [
        _arranged(widened(tensor.cast(dtype)), labels, order)._stretch(shape)
        for tensor, labels in terms
    ]
    total = reduce(lambda x, y: x._apply(MUL, y), factors)
    for axis in reversed(range(len(result), len(order))):
        total = total._through(SumReduce, axis)
    total = total._viewed(shape[: len(result)])
    return total if wide else total.cast(dtype)


def _arranged(tensor: T, labels: Labels, order: Labels) -> T:
    """Return a view with an axis for each label in order, of size 1 for missing ones."""
    axes = [labels.index(label) for label in order if label in labels]
    if axes != sorted(axes):
        tensor = tensor._through(Permute, tuple(axes))
    sizes = iter(tensor.shape)
    return tensor._viewed(tuple(next(sizes) if label in labels else 1 for label in order))


# -- einsum ----------------------------------------------------------------------------------------


@told
def einsum(text: str, *operands: T | Sequence[T]) -> T:
    """Return sums of products, written with letters for axes as in "ij,jk->ik".

    Without an arrow the result has the letters that occur once, in alphabetical order; "..." stands
    for any more axes, which broadcast; a letter twice in one operand is its diagonal.

    >>> from luminal_lab.session import Graph
    >>> cx = Graph()
    >>> einsum("bqhd,bkhd->bhqk", cx.tensor((2, 5, 4, 8)), cx.tensor((2, 7, 4, 8))).shape
    (2, 4, 5, 7)
    """
    given = listed(operands)
    first = lead("einsum", given)
    with first.graph.whole():
        return _einsum(text, [first.other("einsum", operand) for operand in given], "einsum")


def _einsum(text: str, tensors: list[T], what: str) -> T:
    inputs, result = _subscripts(text, tensors, what)
    terms = [
        _diagonals(tensor, labels, what) for tensor, labels in zip(tensors, inputs, strict=True)
    ]
    total, labels = terms[0]
    for k, (tensor, more) in enumerate(terms[1:], 2):
        later = {*result}.union(*(names for _, names in terms[k:]))
        # Labels of a single operand are summed before the product.
        mine = [label for label in labels if label in later or label in more]
        theirs = [label for label in more if label in later or label in labels]
        left, right = contract(what, mine, (total, labels)), contract(what, theirs, (tensor, more))
        both = [label for label in dict.fromkeys((*mine, *theirs)) if label in later]
        labels = result if k == len(terms) else both
        total = contract(what, labels, (left, mine), (right, theirs))
    return contract(what, result, (total, labels))


def _subscripts(
    text: str, tensors: Sequence[MatrixProducts], what: str
) -> tuple[list[list[str]], list[str]]:
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # forgotten
        raise ShapeError(f"{what}: {text!r} is not text", hint='it comes first: "ij,jk->ik"')
    left, arrow, right = text.replace(" ", "").partition("->")
    parts = left.split(",")
    if len(parts) != len(tensors):
        raise ShapeError(
            f"{what}: {text!r} describes {len(parts)} operands, but {len(tensors)} are given",
            hint="write one group of letters for each operand, with commas between",
        )
    inputs = [_letters(part, tensor, what) for part, tensor in zip(parts, tensors, strict=True)]
    every = [label for labels in inputs for label in labels]
    dots = max(([label for label in labels if len(label) > 1] for labels in inputs), key=len)
    if not arrow:
        return inputs, [*dots, *sorted(c for c in {*every} if len(c) == 1 and every.count(c) == 1)]
    before, ellipsis, after = right.partition("...")
    result = [*before, *(dots if ellipsis else ()), *after]
    for label in result:
        if label not in every or result.count(label) > 1:
            why = "comes twice in the result" if label in every else "is in no operand"
            raise ShapeError(
                f"{what}: {label!r} of {text!r} {why}",
                hint="the letters after the arrow are some of those before it, each once",
            )
    return inputs, result


def _letters(part: str, tensor: MatrixProducts, what: str) -> list[str]:
    match = re.fullmatch(r"([A-Za-z]*)(\.\.\.)?([A-Za-z]*)", part)
    if match is None:
        raise ShapeError(
            f"{what}: {part!r} are not letters",
            hint='spell it as in "ij,jk->ik" or "...i,ij->...j"',
        )
    before, dots, after = match.groups()
    more = tensor.ndim - len(before) - len(after)
    if more < 0 or (more and not dots):
        raise ShapeError(
            f"{what}: {part!r} names {len(before) + len(after)} axes, but {tensor.label} has "
            f"{tensor.ndim}",
            hint='write one letter for each axis, or "..." for the rest',
        )
    return [*before, *(f"axis {axis} of '...'" for axis in range(-more, 0)), *after]


def _diagonals(tensor: T, labels: list[str], what: str) -> tuple[T, list[str]]:
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            if tensor.shape[first] != tensor.shape[second]:
                raise ShapeError(
                    f"{what}: {label} is {tensor.shape[first]} and {tensor.shape[second]} in "
                    f"{tensor.label}",
                    hint="a diagonal needs axes of equal sizes",
                )
            tensor = tensor.diagonal(0, first, second)
            labels = [*(name for k, name in enumerate(labels) if k not in (first, second)), label]
    return tensor, labels


# -- several matrices, and distances ---------------------------------------------------------------


@told
def chain_matmul(*matrices: T | Sequence[T]) -> T:
    """Return the product of many matrices, multiplied in the cheapest order.

    Where sizes are symbolic the order is from left to right.

    >>> a, b, c = cx.tensor((10, 2)), cx.tensor((2, 10)), cx.tensor((10, 3))
    >>> ll.linalg.multi_dot([a, b, c]).shape
    (10, 3)
    """
    given = listed(matrices)
    first = lead("chain_matmul", given)
    with first.graph.whole():
        tensors = [first.other("chain_matmul", matrix, 1, 2) for matrix in given]
        sizes = [*(tensor.shape[0] for tensor in tensors), tensors[-1].shape[-1]]
        for end in (0, -1):
            if tensors[end].ndim == 1:
                sizes[end] = 1
        if len(sizes) < 4 or any(isinstance(size, Expr) for size in sizes):
            return reduce(lambda x, y: x.matmul(y), tensors)

        @cache
        def best(start: int, stop: int) -> tuple[Dim, int]:
            if stop - start == 1:
                return 0, start
            outer = sizes[start] * sizes[stop]
            return min(
                (best(start, k)[0] + best(k, stop)[0] + outer * sizes[k], k)
                for k in range(start + 1, stop)
            )

        def product(start: int, stop: int) -> T:
            middle = best(start, stop)[1]
            if stop - start == 1:
                return tensors[start]
            return product(start, middle).matmul(product(middle, stop))

        return product(0, len(tensors))


multi_dot = chain_matmul
