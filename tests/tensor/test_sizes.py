"""Every operation over symbolic dims that turn out to be 0 or 1 in a run, against PyTorch."""

import re
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.errors import DimError, LabError
from tests.expect import error_of
from tests.tensor.against import draw, same

ALIKE = """abs absolute acos acosh arccos arccosh arcsin arcsinh arctan arctanh asin asinh atan
    atanh bfloat16 bool ceil clone contiguous cos cosh deg2rad double erf erfc exp exp2 expm1
    fix float floor frac half int isfinite isinf isnan log log10 log1p log2 logical_not logit
    long neg negative rad2deg reciprocal relu round rsqrt sgn sigmoid sign signbit sin sinc sinh
    sqrt square tan tanh trunc nan_to_num lgamma digamma erfinv isposinf isneginf""".split()  # noqa: SIM905
"""What both call without arguments."""
FUNCTIONAL = """relu6 hardtanh leaky_relu hardsigmoid hardswish hardshrink softshrink silu mish
    softplus logsigmoid elu celu selu gelu softsign tanhshrink""".split()  # noqa: SIM905
BOTH = """add copysign div divide eq floor_divide fmod ge greater greater_equal gt le less
    less_equal logaddexp logical_and logical_or logical_xor lt maximum minimum mul multiply ne
    not_equal pow remainder sub subtract true_divide xlogy atan2 arctan2 isclose fmax fmin hypot
    logaddexp2 ldexp heaviside""".split()  # noqa: SIM905
"""What both call with another tensor."""
ATTENTION = "scaled_dot_product_attention"

# Shapes by dims (n and m are symbolic), what we call, and what PyTorch calls if it is not the same.
ROWS: list[tuple[str, str, str]] = [
    *(("n,3", f"x.{name}()", "") for name in ALIKE),
    *(("n,3", f"x.{name}()", f"F.{name}(x)") for name in FUNCTIONAL),
    *(("n,3; n,1", f"x.{name}(y)", "") for name in BOTH),
    *(
        ("n,3", f"x.{name}()", f"torch.special.{name}(x)")
        for name in ("ndtr", "ndtri", "log_ndtr", "erfcx", "entr", "i0", "i0e", "i1", "i1e")
    ),
    ("n,3; n,1", "x.xlog1py(y)", "torch.special.xlog1py(x, y)"),
    ("n,3", "x.abs().polygamma(1)", "x.abs().polygamma(1)"),
    ("n,3", "(x + 9).mvlgamma(2)", ""),
    ("n,3; n,1", "x.rsub(y)", "torch.rsub(x, y)"),
    ("n,3", "x.zeros_like()", "torch.zeros_like(x)"),
    ("n,3", "x.ones_like('int32')", "torch.ones_like(x, dtype=torch.int32)"),
    ("n,3", "x.recip()", "x.reciprocal()"),
    ("n,3", "x.swish()", "F.silu(x)"),
    ("n,3", "x.log_sigmoid()", "F.logsigmoid(x)"),
    ("n,3", "x.round_to_even()", "x.round()"),
    ("n,3", "x.threshold(0.5, 2.0)", "F.threshold(x, 0.5, 2.0)"),
    ("n,3", "x.graph_break()", "x"),
    ("n,3", "x.detach()", ""),
    ("n,3; 3", "x.after(y)", "x"),
    ("n,3; 3", "x.prelu(y)", "F.prelu(x, y)"),
    ("n,4", "x.glu()", "F.glu(x)"),
    ("4,n", "x.glu(0)", "F.glu(x, 0)"),
    ("n,3", "x.cast('int64')", "x.long()"),
    ("n,3", "x.clip(0.0, 1.0)", ""),
    ("n,3; n,1", "x.clip(y)", ""),
    ("n,3", "x.clamp(0.0)", ""),
    ("n,3", "x.clamp_min(0.0)", ""),
    ("n,3", "x.clamp_max(0.0)", ""),
    ("n,3", "x.full_like(2.0)", "torch.full_like(x, 2.0)"),
    ("n,3", "x.constant(2.0, x.dtype, x.shape)", "torch.full_like(x, 2.0)"),
    ("n,3; n,3; n,3", "x.lerp(y, z)", ""),
    ("n,3; n,3; n,1", "x.addcmul(y, z, value=2)", ""),
    ("n,3; n,3; n,1", "x.addcdiv(y, z, value=2)", ""),
    ("n,3", "(x > 0).bitwise_and(x < 1)", ""),
    ("n,3", "(x > 0).bitwise_or(x < 1)", ""),
    ("n,3", "(x > 0).bitwise_xor(x < 1)", ""),
    ("n,3", "(x > 0).bitwise_not()", ""),
    (
        "n,3; n,1",
        "x.view('int32').bitwise_left_shift(y.cast('int32'))",
        "x.view(torch.int32).bitwise_left_shift(y.int())",
    ),
    (
        "n,3; n,1",
        "x.view('int32').bitwise_right_shift(y.cast('int32'))",
        "x.view(torch.int32).bitwise_right_shift(y.int())",
    ),
    ("n,m", "x.bitcast('uint8')", "(x + 0).view(torch.uint8)"),
    (
        "m,n",
        "x.bitcast('int16').bitcast('float32')",
        "(x + 0).view(torch.int16).view(torch.float32)",
    ),
    ("n,3; n,3", "(x > 0).where(x, y)", "torch.where(x > 0, x, y)"),
    ("n,3", "x.masked_fill(x > 0, 5.0)", ""),
    ("n,3; n", "ll.where(x > 0, x, y.unsqueeze(1))", "torch.where(x > 0, x, y.unsqueeze(1))"),
    # -- movement ----------------------------------------------------------------------------------
    ("n,3,m", "x.permute(2, 0, 1)", ""),
    ("n,3", "x.transpose(0, 1)", ""),
    ("n,3", "x.swapaxes(0, 1)", ""),
    ("n,3", "x.swapdims(0, 1)", ""),
    ("n,3,m", "x.movedim(0, -1)", ""),
    ("n,3,m", "x.moveaxis(0, -1)", ""),
    ("n,3", "x.t()", ""),
    ("n,3", "x.reshape(3, x.shape[0])", ""),
    ("n,4", "x.reshape(2, -1)", ""),
    ("n,4", "x.view(2, -1)", ""),
    ("n,4", "x.reshape(x.shape[0], -1)", "x.reshape(x.shape[0], 4)"),
    ("n,4; 2,n,2", "x.reshape_as(y)", ""),
    ("n,4; 2,n,2", "x.view_as(y)", ""),
    ("n,4,m", "x.flatten(1)", "x.flatten(1)"),
    ("n,4,m", "x.flatten()", ""),
    ("n,4,m", "x.ravel()", ""),
    ("n,4", "x.unflatten(1, (2, -1))", "x.reshape(-1 if x.shape[0] else 0, 2, 2)"),
    ("n,1,3", "x.squeeze(1)", ""),
    ("n,3", "x.unsqueeze(0)", ""),
    ("n", "x.atleast(2)", "torch.atleast_2d(x)"),
    ("n", "x.atleast_1d()", "torch.atleast_1d(x)"),
    ("n", "x.atleast_2d()", "torch.atleast_2d(x)"),
    ("n", "x.atleast_3d()", "torch.atleast_3d(x)"),
    ("n,1; m", "x.expand(-1, y.shape[0])", ""),
    ("n,1; n,m", "x.expand_as(y)", ""),
    ("n,1; m", "x.broadcast_to((x.shape[0], y.shape[0]))", ""),
    ("n,3; m", "x.expand_dim(1, y.shape[0])", "x.unsqueeze(1).expand(-1, y.shape[0], -1)"),
    ("n,3; m", "x.repeat(y.shape[0], 2)", ""),
    ("n,3", "x.tile((2, 2))", ""),
    ("n,3", "x.repeat_interleave(2, 0)", ""),
    ("n,3", "x.repeat_interleave(2)", ""),
    ("n,3", "x.slice(((0, 1), (1, 3)))", "x[0:1, 1:3]"),
    ("n,3", "x.slice_along(0, 1, None)", "x[1:]"),
    ("n,3", "x.slice_along(0, None, None, -1)", "x.flip(0)"),
    ("n,3", "x.narrow(0, 0, 1)", ""),
    ("n,3", "x.narrow(0, 0, x.shape[0])", ""),
    ("n,3", "x.select(0, 0)", ""),
    ("n,3", "x.select(0, -1)", ""),
    ("n,3", "x[0]", ""),
    ("n,3", "x[-1:]", ""),
    ("n,3", "x[2:]", ""),
    ("n,3", "x[:, 1]", ""),
    ("n,3", "x.unbind(1)", ""),
    ("n,4", "x.split(2, 1)", ""),
    ("n,4", "x.chunk(2, 1)", ""),
    ("n,4", "x.tensor_split(3, 1)", ""),
    ("n,4", "x.unfold(1, 2, 1)", ""),
    ("n,4", "x.unfold(0, 1, 1)", ""),
    ("n,4", "x.pool_last_dim(2, 2)", "x.unfold(1, 2, 2)"),
    ("n,3", "x.flip(0)", "x.flip(0)"),
    ("n,3", "x.flipud()", ""),
    ("n,3", "x.fliplr()", ""),
    ("n,3", "x.rot90()", ""),
    ("n,3", "x.roll(1, 0)", ""),
    ("n,3", "x.roll(-2)", ""),
    ("n,3", "x.roll((1, 2), (0, 1))", ""),
    # -- joining -----------------------------------------------------------------------------------
    ("n,3", "x.pad(((1, 1), (0, 2)), 5)", "F.pad(x, (0, 2, 1, 1), value=5)"),
    ("n,3", "x.pad_along(0, 2, 0)", "F.pad(x, (0, 0, 2, 0))"),
    ("n,2,3", "x.pad(((0, 0), (0, 0), (1, 1)), mode='reflect')", "F.pad(x, (1, 1), 'reflect')"),
    ("2,3,n", "x.pad(((0, 0), (0, 0), (1, 1)), mode='replicate')", "F.pad(x, (1, 1), 'replicate')"),
    ("2,3,n", "x.pad(((0, 0), (0, 0), (1, 1)), mode='circular')", "F.pad(x, (1, 1), 'circular')"),
    ("2,3,n", "x.pad(((0, 0), (0, 0), (1, 1)), mode='reflect')", "F.pad(x, (1, 1), 'reflect')"),
    ("n,3", "x.excise(0, 1, 1)", "x[::2]"),
    ("n,3", "x.diagflat()", ""),
    ("n,3; n", "x.select_scatter(y, 1, -1)", ""),
    ("n,4; n,2", "x.slice_scatter(y, 1, 1, 4, 2)", ""),
    ("n,n; n", "x.diagonal_scatter(y)", ""),
    ("n,4", "x.hsplit(2)", ""),
    ("4,n", "x.vsplit((1, 3))", ""),
    ("n,2,4", "x.dsplit(2)", ""),
    ("n,3", "x.pad(((0, 0), (-1, 0)))", "x[:, 1:]"),
    ("n,3; m,3", "x.concat(y)", "torch.cat((x, y))"),
    ("n,3; m,3", "x.cat(y)", "torch.cat((x, y))"),
    ("n,3; m,3", "x.join('concat', [x, y], 0)", "torch.cat((x, y))"),
    ("n,3; m,3", "x.concat_along(y, 0)", "torch.cat((x, y))"),
    ("n,3; n,3", "x.stack(y)", "torch.stack((x, y))"),
    ("n,3; m,3", "ll.concat([x, y, x])", "torch.cat([x, y, x])"),
    ("n,3; n,3", "ll.stack([x, y], 1)", "torch.stack([x, y], 1)"),
    ("n; m", "ll.hstack([x, y])", "torch.hstack([x, y])"),
    ("n; n", "ll.vstack([x, y])", "torch.vstack([x, y])"),
    ("n; n", "ll.dstack([x, y])", "torch.dstack([x, y])"),
    ("n; m", "ll.meshgrid(x, y)", "torch.meshgrid(x, y, indexing='ij')"),
    ("n,3", "x.tril()", ""),
    ("n,3", "ll.triu(x, 1)", "torch.triu(x, 1)"),
    ("n; m", "ll.column_stack([x, y.sum() + x])", "torch.column_stack([x, y.sum() + x])"),
    ("n,1; m", "ll.broadcast_tensors(x, y)", "torch.broadcast_tensors(x, y)"),
    ("n,2; m,3", "ll.block_diag(x, y)", "torch.block_diag(x, y)"),
    ("n; m", "ll.cartesian_prod(x, y)", "torch.cartesian_prod(x, y)"),
    ("n,3", "x.triu(1)", ""),
    ("n,3", "x.diagonal()", ""),
    ("n,3", "x.diagonal(1)", ""),
    ("n,3", "x.diagonal(-1)", ""),
    ("n", "x.diag_embed()", ""),
    ("n", "x.diag_embed(1)", ""),
    ("n", "x.diag()", ""),
    ("n,m", "x.diag()", ""),
    ("n,8,2,2", "x.pixel_shuffle(2)", "F.pixel_shuffle(x, 2)"),
    ("2,8,n,2", "x.pixel_shuffle(2)", "F.pixel_shuffle(x, 2)"),
    ("n,2,4,2", "x.pixel_unshuffle(2)", "F.pixel_unshuffle(x, 2).view(-1, 8, 2, 1)"),
    ("n,4,3,2", "x.channel_shuffle(2)", "F.channel_shuffle(x, 2)"),
    # -- reductions --------------------------------------------------------------------------------
    *(
        (shape, f"x.{name}({given})", "")
        for name in ("sum", "mean", "nansum", "nanmean", "prod", "any", "all")
        for shape, given in (("n,3", "0"), ("n,3", "1"), ("n,3", ""), ("n,m", "-1"))
    ),
    *(
        ("n,3", f"x.{name}({given})", "")
        for name in ("amax", "amin", "argmax", "argmin", "logsumexp")
        for given in ("0", "1", "-1, keepdim=True")
    ),
    ("n,3", "x.sum_to_size(1, 3)", ""),
    ("n,3", "x.max()", ""),
    ("n,3", "x.min()", ""),
    ("n,3", "x.argmax()", ""),
    ("n,3", "x.long().amax(0)", ""),
    ("n,3", "x.max(1)", "x.amax(1)"),
    ("n,3", "x.aminmax(dim=0)", ""),
    ("n,3", "x.aminmax(dim=1)", ""),
    ("n,3", "x.count_nonzero(0)", ""),
    ("n,3", "x.var(0)", ""),
    ("n,3", "x.var(0, correction=0)", ""),
    ("n,3", "x.std(0)", ""),
    ("n,3", "x.std(1)", ""),
    ("n,3", "x.var_mean(0)", "torch.var_mean(x, 0)"),
    ("n,3", "x.std_mean(0)", "torch.std_mean(x, 0)"),
    *(("n,3", f"x.norm({p}, {k})", "") for p in (0, 1, 2, 3, "float('inf')") for k in (0, 1)),
    ("n,n", "x.trace()", ""),
    # -- scans and neighbours ----------------------------------------------------------------------
    *(
        ("n,3", f"x.{name}({axis})", "")
        for name in ("cumsum", "cumprod", "logcumsumexp")
        for axis in (0, 1)
    ),
    *(
        ("n,3", f"x.{name}({axis})", f"x.{name}({axis})[0]")
        for name in ("cummax", "cummin")
        for axis in (0, 1)
    ),
    ("n,3", "x.differences(1, 0)", "x.diff(1, 0)"),
    ("n,3", "x.differences(2, 0)", "x.diff(2, 0)"),
    ("n,3", "x.trapezoid(axis=0)", "torch.trapezoid(x, dim=0)"),
    ("n,3", "x.trapezoid(axis=1)", "torch.trapezoid(x, dim=1)"),
    # -- indexing ----------------------------------------------------------------------------------
    ("n,3; m", "x.take((y * 0).long())", ""),
    ("n,3; m", "x.take((y * 0).long(), 1)", "x[:, (y * 0).long()]"),
    ("n,3; m", "x.index_select(1, (y * 0).long())", ""),
    ("n,3; m", "x.index_select(0, (y * 0).long())", ""),
    ("n,3; m", "x[(y * 0).long()]", ""),
    ("n,3; m", "x[:, (y * 0).long(), None]", ""),
    ("4,3; n,m", "x.embedding((y * 0).long())", "F.embedding((y * 0).long(), x)"),
    ("n,3; n,m", "x.gather(1, (y * 0).long())", ""),
    ("n,3; m,3", "x.gather(0, (y * 0).long())", ""),
    ("n,3; n,m", "x.take_along_dim((y * 0).long(), 1)", ""),
    ("n,3; n,m", "x.scatter(1, (y * 0).long(), y)", ""),
    ("n,3; n,m", "x.scatter_add(1, (y * 0).long(), y)", ""),
    *(
        ("n,3; n,m", f"x.scatter_reduce(1, (y * 0).long(), y, {how!r})", "")
        for how in ("sum", "mean", "amax", "amin", "prod")
    ),
    ("n,3; m; n,m", "x.index_add(1, (y * 0).long(), z)", ""),
    ("n,3; m; n,m", "x.index_copy(1, (y * 0).long(), z)", ""),
    ("n,3; m", "x.index_fill(1, (y * 0).long(), 2.0)", ""),
    ("4,3; n,3", "x.update(y, 0)", "torch.cat([y, x[len(y):]])"),
    ("n", "(x * 0).long().one_hot(3)", "F.one_hot((x * 0).long(), 3)"),
    ("n", "(x * 0).long().bincount(minlength=3)", ""),
    ("n,3", "x.nonzero_static(size=2)", ""),
    ("n,3; n,3", "x.masked_scatter(x > 0, y)", ""),
    ("3,n; n", "x.index_put(([0],), y)", "x.index_put((torch.tensor([0]),), y)"),
    (
        "3,n; 2,n",
        "x.index_reduce(0, [0, 2], y, 'amax')",
        "x.index_reduce(0, torch.tensor([0, 2]), y, 'amax')",
    ),
    ("3,n", "x.put([], [])", "x"),
    ("n,3", "x.bernoulli(0.0)", "x * 0"),
    ("n,3", "x.rand_like() * 0", "x * 0"),
    ("n,3", "x.randn_like() * 0", "x * 0"),
    ("n,3", "x.randint_like(1)", "x * 0"),
    ("n,3; n,3", "(x * 0).as_normal(y * 0)", "x * 0"),
    ("n,3", "x.sort(0)", ""),
    ("n,3", "x.sort(1)", ""),
    ("n,3", "x.argsort(0)", ""),
    ("n,3", "x.argsort(1, descending=True)", ""),
    ("n,3", "x.msort()", ""),
    ("n,3", "x.topk(0, 0)", ""),
    ("n,3", "x.topk(2, 1)", ""),
    ("n,3", "x.topk(1, 0)", ""),
    ("n,3", "x.kthvalue(1, 1)", ""),
    ("n,3", "x.median(1)", ""),
    ("n,3", "x.median(0)", ""),
    ("n; m,3", "x.searchsorted(y)", "torch.searchsorted(x, y)"),
    ("m,3; n", "x.bucketize(y)", "torch.bucketize(x, y)"),
    # -- products ----------------------------------------------------------------------------------
    ("n,3; 3,m", "x.matmul(y)", ""),
    ("3,n; n,m", "x.matmul(y)", ""),
    ("2,n; n", "x.matmul(y)", ""),
    ("n; n", "x.dot(y)", ""),
    ("n; n", "x.vdot(y)", ""),
    ("n,3; 3,m", "x.mm(y)", ""),
    ("n,2,3; n,3,m", "x.bmm(y)", ""),
    ("n,m; m", "x.mv(y)", ""),
    ("2,3; 2,n; n,3", "x.addmm(y, z)", ""),
    ("2; 2,n; n", "x.addmv(y, z)", ""),
    ("m,2,3; m,2,n; m,n,3", "x.baddbmm(y, z)", ""),
    ("n; m", "x.outer(y)", ""),
    ("2,n; m,n", "x.inner(y)", ""),
    ("2,n; n,m", "x.tensordot(y, 1)", "torch.tensordot(x, y, 1)"),
    ("n,2; m,3", "x.kron(y)", "torch.kron(x, y)"),
    ("n,3; n,3", "x.cross(y)", "torch.linalg.cross(x, y)"),
    ("3,n; 3,n", "x.cross(y, 0)", "torch.linalg.cross(x, y, dim=0)"),
    ("n,3; m,3; m", "x.linear(y, z)", "F.linear(x, y, z)"),
    ("2,n; 3,n; 3", "x.linear(y, z)", "F.linear(x, y, z)"),
    ("n,2; n,3; m,2,3", "x.bilinear(y, z)", "F.bilinear(x, y, z)"),
    ("n,3; 3,m", "ll.einsum('ij,jk->ki', x, y)", "torch.einsum('ij,jk->ki', x, y)"),
    ("n,3; m,3", "x.cdist(y)", "torch.cdist(x, y)"),
    ("n,3; n,3", "x.dist(y)", ""),
    ("3,n", "x.cov()", ""),
    ("3,n", "x.corrcoef()", ""),
    ("n,3; 2", "x.isin(y)", "torch.isin(x, y)"),
    ("n,3", "x.histc(4, -1, 1)", ""),
    ("n,3", "x.quantile(0.3, 1)", "x.quantile(0.3, 1) if len(x) else x[:, 0]"),
    ("n,3", "x.nanquantile(0.3, 1)", "x.nanquantile(0.3, 1) if len(x) else x[:, 0]"),
    ("n,3", "x.quantile(0.5, 0)", ""),
    ("n,3", "x.nanmedian(1)", ""),
    ("n,3", "x.nanmedian(0)", ""),
    ("n,3", "x.mode(1)", ""),
    ("n,3", "x.renorm(2, 0, 1.0)", ""),
    ("2,n", "x.renorm(2, 0, 1.0)", ""),
    ("4,n", "x.pdist()", "F.pdist(x)"),
    # -- windows -----------------------------------------------------------------------------------
    *((f"n,2{',4' * k}; 3,2{',3' * k}", f"x.conv{k}d(y)", f"F.conv{k}d(x, y)") for k in (1, 2, 3)),
    *(
        (f"n,2{',4' * k}; 2,3{',3' * k}", f"x.conv_transpose{k}d(y)", f"F.conv_transpose{k}d(x, y)")
        for k in (1, 2, 3)
    ),
    ("2,n,4; 3,n,3", "x.conv(y)", "F.conv1d(x, y) if x.numel() else torch.zeros(2, 3, 2)"),
    ("2,2,n; 3,2,3", "x.conv(y, padding=1)", "F.conv1d(x, y, padding=1)"),
    ("2,2,n; 3,2,1", "x.conv(y)", "F.conv1d(x, y)"),
    ("n,2,4; 2,3,3", "x.conv_transpose(y)", "F.conv_transpose1d(x, y)"),
    *(
        (f"n,2{',4' * k}", f"x.{name}{k}d({given})", f"F.{name}{k}d(x, {given})")
        for name, given in (
            ("max_pool", "2"),
            ("avg_pool", "2"),
            ("adaptive_avg_pool", "2"),
            ("adaptive_max_pool", "2"),
            ("adaptive_avg_pool", "3"),
            ("lp_pool", "2.0, 2"),
        )
        for k in (1, 2, 3)
    ),
    *(
        (
            f"n,2{',4' * k}",
            f"x.max_pool{k}d(2, return_indices=True)",
            f"F.max_pool{k}d(x, 2, return_indices=True)",
        )
        for k in (1, 2, 3)
    ),
    ("n,2,4", "x.adaptive_max_pool1d(3, True)", "F.adaptive_max_pool1d(x, 3, True)"),
    *(
        (
            f"n,2{',1' * k}",
            f"x.max_unpool{k}d((x * 0).long(), 2)",
            f"F.max_unpool{k}d(x, (x * 0).long(), 2)",
        )
        for k in (1, 2, 3)
    ),
    ("n,2,1", "x.max_unpool((x * 0).long(), 2)", "F.max_unpool1d(x, (x * 0).long(), 2)"),
    ("n,2,4,4; n,3,3,2", "x.grid_sample(y)", "F.grid_sample(x, y, align_corners=False)"),
    (
        "n,2,3",
        "x.affine_grid((x.shape[0], 1, 2, 2))",
        "F.affine_grid(x, (len(x), 1, 2, 2), False) if len(x) else torch.empty(0, 2, 2, 2)",
    ),
    ("n,2,4", "x.max_pool(2)", "F.max_pool1d(x, 2)"),
    ("n,2,4", "x.avg_pool(2)", "F.avg_pool1d(x, 2)"),
    ("n,2,4", "x.lp_pool(2.0, 2)", "F.lp_pool1d(x, 2.0, 2)"),
    ("n,2,4", "x.adaptive_avg_pool(2)", "F.adaptive_avg_pool1d(x, 2)"),
    ("n,2,4", "x.adaptive_max_pool(2)", "F.adaptive_max_pool1d(x, 2)"),
    ("2,2,n", "x.max_pool(1)", "F.max_pool1d(x, 1)"),
    ("n,2,4,4", "x.patches(2)", "F.unfold(x, 2)"),
    ("n,2,4,4", "x.unfold2d(2)", "F.unfold(x, 2)"),
    ("n,8,9", "x.fold((4, 4), 2)", "F.fold(x, (4, 4), 2)"),
    ("n,2,4", "x.interpolate(8)", "F.interpolate(x, 8)"),
    ("n,2,4", "x.interpolate(7, mode='linear')", "F.interpolate(x, 7, mode='linear')"),
    # -- normalisation -----------------------------------------------------------------------------
    *(
        ("n,3", f"x.{name}({axis})", f"F.{name}(x, {axis})")
        for name in ("softmax", "log_softmax", "softmin")
        for axis in (0, 1)
    ),
    ("n,3", "x.mean_norm(0)", "x - x.mean(0)"),
    ("n,3", "x.std_norm(0)", "x * (x.square().mean(0) + 1e-5).rsqrt()"),
    ("n,3", "x.layer_norm(-1)", "F.layer_norm(x, (3,))"),
    ("3,n", "x.layer_norm(-1)", "F.layer_norm(x, x.shape[1:])"),
    ("n,3", "x.rms_norm(-1)", "F.rms_norm(x, (3,))"),
    ("3,n", "x.rms_norm(-1)", "F.rms_norm(x, x.shape[1:])"),
    ("n,3", "x.normalize()", "F.normalize(x)"),
    ("3,n", "x.normalize()", "F.normalize(x)"),
    ("3,n", "x.normalize(3.0)", "F.normalize(x, 3.0)"),
    ("n,4,2", "x.group_norm(2)", "F.group_norm(x, 2)"),
    ("n,4,2", "x.instance_norm()", "F.instance_norm(x)"),
    ("n,3; 3; 3", "x.batch_norm(y, z * 0 + 1)", "F.batch_norm(x, y, z * 0 + 1)"),
    ("n,4,2", "x.local_response_norm(3)", "F.local_response_norm(x, 3)"),
    ("n,3; n,3", "x.cosine_similarity(y)", "F.cosine_similarity(x, y)"),
    ("3,n; 3,n", "x.cosine_similarity(y)", "F.cosine_similarity(x, y)"),
    ("n,3; n,3", "x.pairwise_distance(y)", "F.pairwise_distance(x, y)"),
    ("3,n; 3,n", "x.pairwise_distance(y)", "F.pairwise_distance(x, y)"),
    ("n,3,2", "x.dropout(0.0)", "x"),
    ("n,3,2", "x.dropout(1.0)", "x * 0"),
    *(("n,3,2", f"x.{name}(1.0)", "x * 0") for name in ("feature_dropout", "dropout1d")),
    *(("n,3,2,2", f"x.{name}(1.0)", "x * 0") for name in ("dropout2d", "dropout3d")),
    *(
        (shapes, f"x.{ATTENTION}(y, z{more})", f"F.{ATTENTION}(x, y, z{more})")
        for shapes in ("2,n,4; 2,m,4; 2,m,4", "n,3,4; n,3,4; n,3,4", "2,3,n; 2,3,n; 2,3,4")
        for more in ("", ", is_causal=True")
    ),
    ("2,n,4; 2,m,4; n,m", f"x.{ATTENTION}(y, y, z > 0)", f"F.{ATTENTION}(x, y, y, z > 0)"),
]

APART = """T apply argwhere backward borrow diff drop dtype grad graph id index item keep label
    lowering mT masked_select name named ndim node nonzero numpy op_counts other print retrieve set
    shape tolist type unique unique_consecutive windows""".split()  # noqa: SIM905
"""What is no operation, or what is for the classes alone, or has a size of its own."""


SPELLINGS = {"ll": ll}


def shapes_of(text: str, sizes: dict[str, int] | None = None) -> list[tuple[Any, ...]]:
    """Return the shapes of a row, with sizes for its dims if they are given."""
    dims = [[d.strip() for d in shape.split(",")] for shape in text.split(";")]
    known = sizes or {"n": "n", "m": "m"}
    return [tuple(int(d) if d.isdigit() else known[d] for d in shape) for shape in dims]


@pytest.mark.share(150)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}-{row[1]}")
@pytest.mark.filterwarnings("ignore:.*degrees of freedom", "ignore:index_reduce")
def test_sizes_of_0_and_1(torch, row):
    text, ours, theirs = row
    for n, m, high in ((0, 0, None), (0, 0, 9), (0, 1, None), (1, 0, None), (1, 1, 9)):
        if "m" not in text and n < m:
            continue
        sizes = {"n": n, "m": m}
        arrays = [draw(shape, seed=k) for k, shape in enumerate(shapes_of(text, sizes))]
        try:
            names = dict(zip("xyz", map(torch.tensor, arrays), strict=False))
            wanted = eval(theirs or ours, {"torch": torch, "F": torch.nn.functional}, names)
        except (RuntimeError, IndexError, ValueError) as error:
            wanted = error
        if isinstance(wanted, Exception):
            with pytest.raises(LabError):
                run(ours, shapes_of(text), arrays, high)
            continue
        found = run(ours, shapes_of(text), arrays, high)
        several = isinstance(wanted, (tuple, list))
        for mine, other in zip(found, wanted if several else [wanted], strict=True):
            assert mine.shape == tuple(other.shape), f"n={n} m={m}"
            assert str(mine.dtype) == str(other.dtype).removeprefix("torch."), f"n={n} m={m}"
            other = other.double() if other.dtype is torch.bfloat16 else other
            same(mine, other.numpy(), rtol=1e-5, atol=1e-5)


def run(text: str, shapes: list[tuple[Any, ...]], arrays: list[np.ndarray], high: int | None):
    """Return what an expression of x, y and z computes, as a list of arrays."""
    cx = ll.Graph()
    cx.dim("n", 0, high)
    cx.dim("m", 0, high)
    tensors = [cx.tensor(shape).set(x) for shape, x in zip(shapes, arrays, strict=True)]
    result = eval(text, SPELLINGS, dict(zip("xyz", tensors, strict=False)))
    results = list(result) if isinstance(result, (tuple, list)) else [result]
    for tensor in results:
        tensor.retrieve()
    cx.execute()
    return [tensor.numpy() for tensor in results]


def test_every_operation_has_a_row():
    named = {name for _, ours, _ in ROWS for name in re.findall(r"\.(\w+)\(", ours)}
    public = {name for name in dir(ll.Tensor) if name[0] != "_"}
    assert public - named - {*APART} == set()


def test_a_size_that_was_given_can_be_taken_back():
    cx = ll.Graph()
    x = cx.tensor(("b", 2), name="x").set(np.ones((3, 2)))
    y = (x * 2).retrieve()
    cx.set_dim("b", 9)
    error = error_of(cx.execute, DimError)
    assert error.message.endswith("with b = 9 from set_dim")
    assert error.hint == 'cx.set_dim("b", None) takes back the size that was given'
    cx.set_dim("b", None)
    cx.execute()
    assert y.numpy().shape == (3, 2)
    size: Any = 2.5
    error = error_of(lambda: cx.set_dim("b", size), DimError)
    assert str(error).startswith("set_dim: 'b' cannot be 2.5")
