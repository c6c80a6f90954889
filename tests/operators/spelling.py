"""How calls of PyTorch's operators are written here, where that is not `x.name(…)`.

`x` is the first argument, `a` are the further ones and `k` those given by name.
"""

SPELLED: dict[str, str] = {
    # Sources: methods of the graph, which take shapes as one tuple.
    "arange": "cx.arange(x, *a, **renamed(k, end='stop'))",
    "linspace": "cx.linspace(*map(host, (x, *a)), **k)",
    "logspace": "cx.logspace(*map(host, (x, *a)), **k)",
    "eye": "cx.eye(x, *a, **k)",
    "ones": "cx.ones(x, *a, **k)",
    "zeros": "cx.zeros(x, *a, **k)",
    "full": "cx.full(x, *a, **k)",
    "randn": "cx.randn(*x)",
    "randint": "cx.randint(*bounds(x, a), shape(x, a)).cast(k.get('dtype', 'int64'))",
    "scalar_tensor": "cx.constant(x, **k)",
    "empty": "cx.zeros(x, *a, **k)",
    "empty_like": "x.zeros_like(*a, **k)",
    "new_zeros": "cx.zeros(a[0], k.get('dtype', x.dtype))",
    "new_ones": "cx.ones(a[0], k.get('dtype', x.dtype))",
    "new_empty": "cx.zeros(a[0], k.get('dtype', x.dtype))",
    "new_full": "cx.full(a[0], a[1], k.get('dtype', x.dtype))",
    "fill": "x.full_like(*a, *k.values())",
    "zero_": "x.zeros_like()",
    # Lists of tensors: functions.
    **{
        name: f"ll.{name}(x, *a, **k)"
        for name in ("stack", "hstack", "vstack", "dstack", "column_stack")
    },
    "cat": "ll.concat(x, *a, **k)",
    "atleast_1d": "each(x, a, lambda t: t.atleast_1d())",
    "atleast_2d": "each(x, a, lambda t: t.atleast_2d())",
    "atleast_3d": "each(x, a, lambda t: t.atleast_3d())",
    "meshgrid": "ll.meshgrid(x, *a, **k)",
    "block_diag": "ll.block_diag(x, *a)",
    "cartesian_prod": "ll.cartesian_prod(x, *a)",
    "broadcast_tensors": "ll.broadcast_tensors(x, *a)",
    "einsum": "ll.einsum(a[0], *x)",
    "linalg.multi_dot": "ll.linalg.multi_dot(x, *a)",
    # Linear algebra and what PyTorch has of it elsewhere; Fourier transforms give pairs.
    **{name: f"ll.linalg.{name}(x, *a, **k)" for name in (
        "cholesky_inverse", "cholesky_solve", "geqrf", "logdet", "lu_unpack", "matrix_exp", "ormqr",
    )},
    "cholesky": "ll.linalg.cholesky(x, upper=(a or (k.get('upper', False),))[0])",
    "qr": "ll.linalg.qr(x, 'reduced' if (a or (k.get('some', True),))[0] else 'complete')",
    "lu": "lu_of(x, *a)",
    "lu_solve": "ll.linalg.lu_solve(a[0], a[1], x)",
    "triangular_solve": "(ll.linalg.solve_triangular((a[0].mT if k.get('transpose') else a[0]), x,"
    " upper=k.get('upper', True) != k.get('transpose', False), unitriangular=k.get('unitriangular',"
    " False)), a[0].clone())",
    # Other names.
    "T": "x.T",
    "H": "x.mT",
    "mT": "x.mT",
    "mH": "x.mT",
    "positive": "+x",
    "conj": "+x",
    "conj_physical": "+x",
    "resolve_conj": "+x",
    "resolve_neg": "+x",
    "real": "+x",
    "trapz": "x.trapezoid(*a, **k)",
    "diff": "x.differences(*a, **k)",
    "equal": "x.eq(*a).all()",
    "allclose": "x.isclose(*a, **k).all()",
    "byte": "x.cast('uint8')",
    "char": "x.cast('int8')",
    "short": "x.cast('int16')",
    "to": "x.cast(dtype_in(a, k))",
    "__rdiv__": "x.__rtruediv__(*a)",
    "slice": "x.slice_along(k.get('dim', 0), k.get('start'), k.get('end'), k.get('step', 1))"
    " if k else x.slice_along(*a)",
    "max": "positions(x, 'max', a, k)",
    "min": "positions(x, 'min', a, k)",
    "cummax": "x.cummax(*a, return_indices=True, **k)",
    "cummin": "x.cummin(*a, return_indices=True, **k)",
    "where": "a[0].where(x, *a[1:])",
    "special.modified_bessel_i0": "x.i0()",
    "special.modified_bessel_i1": "x.i1()",
    "linalg.cross": "x.cross(*a, **k)",
    "linalg.diagonal": "x.diagonal(*a, **{'axis1': -2, 'axis2': -1, **words(k)})",
    # Normalised shapes are axes here; margins are pairs from the first axis on.
    "nn.functional.layer_norm": "x.layer_norm(last(a[0]), k.get('eps', 1e-5), *a[1:3])",
    "nn.functional.rms_norm": "x.rms_norm(last(a[0]), k.get('eps'), *a[1:2])",
    "nn.functional.grid_sample": "x.grid_sample(*a, **k)",
    "grid_sampler_2d": "x.grid_sample(a[0], WAYS[a[1]], EDGES[a[2]], a[3])",
    "grid_sampler_3d": "x.grid_sample(a[0], WAYS[a[1]], EDGES[a[2]], a[3])",
    "cdist": "x.cdist(*a[:2])",
    "sum_to_size": "x.sum_to_size(*a)",
    "float_power": "x.double().pow(double(a[0]))",
    "nn.functional.pad": "x.pad(margins(x, a[0]), ([*a[2:], k.get('value')])[0] or 0,"
    " ([*a[1:], k.get('mode', 'constant')])[0])",
    "constant_pad_nd": "x.pad(margins(x, a[0]), *a[1:], **k)",
    "nn.functional.unfold": "x.unfold2d(*a, **k)",
    "nn.functional.upsample_bilinear": "x.interpolate(*a, mode='bilinear', align_corners=True,"
    " **k)",
    "nn.functional.upsample_nearest": "x.interpolate(*a, mode='nearest', **k)",
    "nn.functional.batch_norm": "x.batch_norm(*a, **without(k, 'momentum'))",
    "nn.functional.instance_norm": "x.instance_norm(k.get('weight'), k.get('bias'),"
    " k.get('eps', 1e-5))",
    "nn.functional.linear_cross_entropy":
        "nn.cross_entropy(x.linear(a[0], k.get('linear_bias')), a[1], **without(k, 'linear_bias',"
        " 'chunking_strategy'))",
    "nn.functional.embedding": "x.embedding(a[0])",
    # Copies are views here: nothing is changed in place.
    **{
        f"{name}_copy": f"x.{name}(*a, **k)"
        for name in (
            "diagonal", "expand", "narrow", "permute", "squeeze", "transpose", "t", "unbind",
            "unfold", "unsqueeze", "view",
        )
    },
    "alias_copy": "x.clone()",
    "split_with_sizes": "x.split(*a, **k)",
    "split_with_sizes_copy": "x.split(*a, **k)",
    "unsafe_split": "x.split(*a, **k)",
    "unsafe_chunk": "x.chunk(*a, **k)",
    # Sizes that PyTorch reads from tensors are numbers here.
    "tensor_split": "x.tensor_split(host(a[0]), *a[1:], **k)",
    "narrow": "x.narrow(a[0], host(a[1]), a[2])",
    "repeat_interleave": "x.repeat_interleave(host(k['repeats'] if 'repeats' in k else a[0]),"
    " *(a[1:] or [k.get('dim')]))",
    # Shapes that come from data are given.
    "nonzero": "x.nonzero(size=count(), **k)",
    "argwhere": "x.argwhere(size=count())",
    "masked_select": "x.masked_select(*a, size=count())",
    "unique": "x.unique(size=count(k.get('dim')), **k)",
    "unique_consecutive": "x.unique_consecutive(size=count(k.get('dim')), **k)",
}  # fmt: skip


DRAWN = {
    "randn",
    "randint",
    "rand_like",
    "randn_like",
    "randint_like",
    "bernoulli",
    "empty",
    "empty_like",
    "new_empty",
}


def drawn(name: str, kwargs: dict, args: tuple) -> bool:
    """Return whether a call's values are drawn, so that only shapes and dtypes can agree."""
    if name in DRAWN:
        return True
    if "dropout" in name:
        p = kwargs.get("p", args[0] if args else 0.5)
        return bool(kwargs.get("training", True)) and 0 < p < 1
    return bool(kwargs.get("dropout_p", 0))
