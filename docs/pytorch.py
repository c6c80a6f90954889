"""Make docs/pytorch.md: PyTorch's tensor methods and functions by family, and what we have of them.

    python docs/pytorch.py            writes the page
    python docs/pytorch.py --check    fails if the page is not what it would write

What is there is asked of the library itself, so that the page cannot claim what is not.
"""

import sys
from collections.abc import Iterable
from pathlib import Path

import luminal_lab as ll
from luminal_lab import nn

PAGE = Path(__file__).with_suffix(".md")

METHODS: dict[str, str] = {
    "Arithmetic": """
        add sub subtract mul multiply div divide true_divide floor_divide remainder fmod pow
        float_power neg negative positive reciprocal square sqrt rsqrt abs absolute sign sgn signbit
        copysign lerp addcmul addcdiv fmax fmin hypot ldexp gcd lcm nextafter heaviside frexp""",
    "Exponentials and logarithms": """
        exp exp2 expm1 log log2 log10 log1p logaddexp logaddexp2 logit xlogy sigmoid""",
    "Trigonometry": """
        sin cos tan asin acos atan atan2 arcsin arccos arctan arctan2 sinh cosh tanh asinh acosh atanh
        arcsinh arccosh arctanh sinc deg2rad rad2deg angle""",
    "Rounding": "floor ceil round trunc fix frac nan_to_num clip clamp clamp_min clamp_max",
    "Comparison and logic": """
        eq ne lt le gt ge equal not_equal less less_equal greater greater_equal isclose allclose isnan isinf
        isfinite isneginf isposinf isreal logical_and logical_or logical_xor logical_not bitwise_and
        bitwise_or bitwise_xor bitwise_not bitwise_left_shift bitwise_right_shift maximum minimum where
        masked_fill""",
    "Special functions": """
        erf erfc erfinv lgamma mvlgamma digamma polygamma igamma igammac i0""",
    "Activations": """
        relu prelu hardshrink softmax log_softmax""",
    "Reductions": """
        sum mean prod max min amax amin aminmax argmax argmin var std all any norm logsumexp
        count_nonzero nansum nanmean median nanmedian quantile nanquantile mode kthvalue dist renorm
        trace histc histogram cov corrcoef sum_to_size""",
    "Scans": "cumsum cumprod cummax cummin logcumsumexp diff",
    "Products": """
        matmul mm bmm mv dot vdot inner outer ger addmm addmv addr addbmm baddbmm kron cross
        matrix_power matrix_exp mul smm sspaddmm""",
    "Linear algebra": """
        cholesky cholesky_inverse cholesky_solve det geqrf inverse logdet lu lu_solve orgqr ormqr qr slogdet
        solve triangular_solve""",
    "Shape": """
        reshape reshape_as view view_as permute transpose swapaxes swapdims movedim moveaxis T mT H mH
        adjoint t flatten ravel unflatten squeeze unsqueeze expand expand_as broadcast_to contiguous
        clone unfold diagonal diag diag_embed diagflat tril triu flip fliplr flipud roll rot90 repeat
        repeat_interleave tile as_strided resize resize_as""",
    "Splitting, joining, slicing": """
        split split_with_sizes chunk tensor_split hsplit vsplit dsplit unbind narrow narrow_copy select
        unsafe_chunk unsafe_split unsafe_split_with_sizes slice_inverse slice_scatter select_scatter
        diagonal_scatter as_strided_scatter""",
    "Indexing": """
        gather scatter scatter_add scatter_reduce take take_along_dim index_select index_add index_copy
        index_fill index_put index_reduce put masked_scatter masked_select nonzero nonzero_static argwhere
        unique unique_consecutive bincount""",
    "Sorting": "sort argsort msort topk",
    "Drawing": "bernoulli",
    "Types and values": """
        type_as float double half bfloat16 int long short char byte bool numpy item tolist cpu clone
        dim ndim ndimension size shape dtype numel nelement itemsize element_size nbytes type name
        new_full new_ones new_zeros new_empty new_tensor is_floating_point is_contiguous""",
    "Gradients (see gradients.md)": "backward grad detach",
}

FUNCTIONS: dict[str, str] = {
    "Convolution": "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d conv_tbc",
    "Pooling": """
        avg_pool1d avg_pool2d avg_pool3d max_pool1d max_pool2d max_pool3d lp_pool1d lp_pool2d lp_pool3d
        adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d
        adaptive_max_pool3d max_pool1d_with_indices max_pool2d_with_indices max_pool3d_with_indices
        adaptive_max_pool1d_with_indices adaptive_max_pool2d_with_indices adaptive_max_pool3d_with_indices
        max_unpool1d max_unpool2d max_unpool3d fractional_max_pool2d fractional_max_pool3d
        fractional_max_pool2d_with_indices fractional_max_pool3d_with_indices""",
    "Activations": """
        relu relu6 leaky_relu prelu rrelu elu selu celu gelu silu mish softplus softsign sigmoid
        logsigmoid hardsigmoid hardswish hardtanh hardshrink softshrink tanh tanhshrink threshold glu
        softmax softmin log_softmax gumbel_softmax""",
    "Normalisation": """
        layer_norm rms_norm group_norm batch_norm instance_norm local_response_norm normalize""",
    "Linear and attention": """
        linear bilinear scaled_dot_product_attention multi_head_attention_forward scaled_mm grouped_mm
        scaled_grouped_mm""",
    "Embedding": "embedding embedding_bag one_hot",
    "Dropout": "dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout",
    "Distance": "cosine_similarity pairwise_distance pdist",
    "Vision": """
        pad interpolate upsample upsample_nearest upsample_bilinear pixel_shuffle pixel_unshuffle
        channel_shuffle native_channel_shuffle fold unfold grid_sample affine_grid""",
    "Losses": """
        mse_loss l1_loss smooth_l1_loss huber_loss cross_entropy nll_loss binary_cross_entropy
        binary_cross_entropy_with_logits kl_div ctc_loss cosine_embedding_loss hinge_embedding_loss
        margin_ranking_loss multi_margin_loss multilabel_margin_loss multilabel_soft_margin_loss
        soft_margin_loss triplet_margin_loss triplet_margin_with_distance_loss gaussian_nll_loss
        poisson_nll_loss linear_cross_entropy""",
}

# Ours under another name, or as a function or a method of the graph.
ELSEWHERE = {
    "dim": "`ndim`",
    "ndimension": "`ndim`",
    "size": "`shape`",
    "type_as": "`cast(other.dtype)`",
    "short": '`cast("int16")`',
    "char": '`cast("int8")`',
    "byte": '`cast("uint8")`',
    "new_full": "`cx.full`",
    "new_ones": "`cx.ones`",
    "new_zeros": "`cx.zeros`",
    "new_tensor": "`cx.tensor(…).set(…)`",
    "type": "`dtype`",
    "logsigmoid": "`log_sigmoid`",
    "equal": "`eq(…).all()`",
    "allclose": "`isclose(…).all()`",
    "multi_head_attention_forward": "`nn.MultiheadAttention`",
    "linear_cross_entropy": "`nn.cross_entropy(x.linear(w), target)`",
    "upsample": "`interpolate`",
    "upsample_nearest": '`interpolate(…, mode="nearest")`',
    "upsample_bilinear": '`interpolate(…, mode="bilinear")`',
    "diff": "`differences`; `diff` compares with a reference",
    "numel": "the product of `shape`",
    "positive": "`+x`",
    "float_power": "`x.double().pow(y.double())`",
    "split_with_sizes": "`split`",
    "narrow_copy": "`narrow`",
    "unsafe_chunk": "`chunk`",
    "unsafe_split": "`split`",
    "unsafe_split_with_sizes": "`split`",
    "H": "`mT`",
    "mH": "`mT`",
    "matrix_power": "`ll.linalg.matrix_power`",
    "matrix_exp": "`ll.linalg.matrix_exp`",
    "max_pool1d_with_indices": "`max_pool1d(…, return_indices=True)`",
    "max_pool2d_with_indices": "`max_pool2d(…, return_indices=True)`",
    "max_pool3d_with_indices": "`max_pool3d(…, return_indices=True)`",
    "adaptive_max_pool1d_with_indices": "`adaptive_max_pool1d(…, return_indices=True)`",
    "adaptive_max_pool2d_with_indices": "`adaptive_max_pool2d(…, return_indices=True)`",
    "adaptive_max_pool3d_with_indices": "`adaptive_max_pool3d(…, return_indices=True)`",
    "cholesky": "`ll.linalg.cholesky`",
    "cholesky_inverse": "`ll.linalg.cholesky_inverse`",
    "cholesky_solve": "`ll.linalg.cholesky_solve`",
    "det": "`ll.linalg.det`",
    "geqrf": "`ll.linalg.geqrf`",
    "inverse": "`ll.linalg.inv`",
    "logdet": "`ll.linalg.logdet`",
    "lu": "`ll.linalg.lu_factor`",
    "lu_solve": "`ll.linalg.lu_solve`",
    "orgqr": "`ll.linalg.householder_product`",
    "ormqr": "`ll.linalg.ormqr`",
    "qr": "`ll.linalg.qr`",
    "slogdet": "`ll.linalg.slogdet`",
    "solve": "`ll.linalg.solve`",
    "triangular_solve": "`ll.linalg.solve_triangular`",
    "cpu": "`numpy`",
}

# There by name, to say why a graph cannot have them.
REFUSED: set[str] = set()

# Families of tensor methods that stand outside what a lazy graph of dense real tensors is about.
OUTSIDE = {
    "changing a tensor in place (names that end in `_`), storage, strides, devices, hooks": """
        data data_ptr const_data_ptr device get_device is_cpu is_cuda is_ipu is_maia is_meta is_mkldnn is_mps
        is_mtia is_vulkan is_xla is_xpu cuda ipu mtia xpu to to_mkldnn layout stride dim_order storage storage_offset
        storage_type untyped_storage pin_memory is_pinned is_shared is_set_to record_stream new
        new_empty new_empty_strided as_subclass is_distributed is_same_size is_nonzero is_signed volatile
        module_load hash_tensor output_nr is_inference is_neg is_nested to_padded_tensor int_repr""",
    "bookkeeping of automatic differentiation": """
        grad_dtype grad_fn is_leaf requires_grad retain_grad retains_grad register_hook
        register_post_accumulate_grad_hook reinforce""",
    "complex numbers": """
        cdouble cfloat chalf conj conj_physical is_complex is_conj imag real resolve_conj resolve_neg""",
    "sparse and quantised tensors": """
        ccol_indices coalesce col_indices crow_indices dense_dim dequantize index indices is_coalesced is_quantized
        is_sparse is_sparse_csr q_per_channel_axis q_per_channel_scales q_per_channel_zero_points q_scale
        q_zero_point qscheme row_indices sparse_dim sparse_mask to_dense to_sparse to_sparse_bsc
        to_sparse_bsr to_sparse_coo to_sparse_csc to_sparse_csr values""",
    "singular values and eigenvalues, which take an iteration; spectrograms": """
        eig istft lstsq pinverse stft svd symeig""",
    "drawing from other distributions (see `cx.rand`, `cx.randn`, `cx.randint`)": "multinomial",
}

DIFFERENCES = """
- `max`, `min`, `cummax`, `cummin` return the values only; `argmax` and `argmin` have the positions, and so has
  `cummax(axis, return_indices=True)`.
- `cond.where(a, b)` chooses; `ll.where(cond, a, b)` is the same.
- `pad(((before, after), …), value=0)` names every axis from the first; modes as in PyTorch.
- `permute`, `expand`, `reshape` take a tuple or ints.
- `layer_norm(axis, eps)`, `mean_norm(axis)`, `std_norm(axis, eps)`, which is x / √(mean x² + eps).
- `topk(k, axis)` gives (values, indices); `gather(axis, index)`; `roll(shift, axis)`.
- Attention is `q.scaled_dot_product_attention(k, v, attn_mask=…, is_causal=…)` and `nn.MultiheadAttention`. A mask of bools is
  True where a key may be *seen*, also for padding: PyTorch's `key_padding_mask` is the opposite, `mask=~key_padding_mask`.
- `conv2d(w, bias, stride, padding, dilation, groups)`; `ll.einsum(text, *tensors)`, `ll.concat(list, axis)`, `ll.stack`.
- `axis` and `dim`, `keepdim` and `keepdims` are both accepted.
- Functions of `torch.nn.functional` are methods of their first argument: `x.conv2d(w)`, `weight.embedding(tokens)`.
  Losses are functions of `nn`, first the prediction, then the target: `nn.cross_entropy(logits, target)`.
- A graph knows its shapes before it runs. Where data decide how many results there are (`nonzero`, `argwhere`, `unique`,
  `unique_consecutive`, `masked_select`), `size=` says it, as in JAX: more are left out, and a `fill_value=` stands for fewer.
- Linear algebra is in `ll.linalg`, for matrices of up to 64 rows or columns; Fourier transforms are in `ll.fft`, where a complex
  value is a pair (real, imaginary).
- Of two equal extremes, `max_pool2d(…, return_indices=True)` has the first place; a gradient goes to that of `max_pool2d`.
- Out of range, a float becomes the nearest integer of the dtype, and NaN 0; an integer modulo 0 is 0.
- `& | ^ ~` are for bools and integers, `<< >>` for integers. A shift by a negative number, or by the number of bits or
  more, leaves 0, or of a negative number that is shifted right -1, on every device.
- `view(dtype)` reads bits as another dtype, of another size along the last axis too; so does `bitcast(dtype)`.
- uint16, uint32 and uint64 meet other integers in the smallest dtype that holds both, as in NumPy; PyTorch refuses.
  There is none for uint64 and a signed dtype, and a Python number takes the tensor's dtype: `x & -1` of uint64 is an error.
- `x / y` is x times the reciprocal of y: the last bit can differ, and the reciprocal of a subnormal y is infinite.
- Gradients at zeros, ties, infinities and NaN are PyTorch's; gradients.md lists what is left.
- In `nn.cross_entropy`, `nn.kl_div` and `nn.binary_cross_entropy_with_logits`, an infinite logit or log-probability
  costs nothing where its share of the target is 0; PyTorch has NaN. A target of 0 has in `kl_div` the gradient NaN in both.
- `softmax`, `softmin`, `log_softmax` without an axis are over all elements. Means of integers, as in `avg_pool1d`, are floats.
- An argument that only PyTorch has is refused, with what to write instead: no `out`, no `inplace`.
""".strip()


def main() -> None:
    """Write the page, or check that it is as it would be written."""
    text = page()
    if "--check" not in sys.argv:
        PAGE.write_text(text, encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != text:
        sys.exit(f"{PAGE.name} is not up to date: run python docs/{Path(__file__).name}")


def page() -> str:
    """Return the text of the page."""
    lines = [
        "# PyTorch's operations, and ours",
        "",
        "Made by `python docs/pytorch.py`, which asks the library what it has. Operations are called as PyTorch calls",
        "them, with the differences below. What stands in parentheses is what to write instead of the name before it.",
        "",
        DIFFERENCES,
        "",
    ]
    for title, families in (
        ("Methods of `torch.Tensor`", METHODS),
        ("Functions of `torch.nn.functional`", FUNCTIONS),
    ):
        lines += [f"## {title}", "", "| family | here | not here |", "|---|---|---|"]
        for family, names in families.items():
            have, lack = split(names.split())
            lines.append(f"| {family} | {' '.join(have)} | {' '.join(lack)} |")
        lines.append("")
    lines += ["## Not the subject of a lazy graph", ""]
    lines += [f"- {family}" for family in OUTSIDE]
    theirs = {name for names in (METHODS | FUNCTIONS).values() for name in names.split()}
    ours = sorted(name for name in public(ll.Tensor) if name not in theirs)
    lines += ["", "## Ours beside these", "", " ".join(f"`{name}`" for name in ours), ""]
    return "\n".join(lines)


def split(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return what we have of some names, with our spelling where it differs, and what we lack."""
    have: list[str] = []
    lack: list[str] = []
    for name in dict.fromkeys(names):
        if name in ELSEWHERE:
            have.append(f"`{name}` ({ELSEWHERE[name]})")
        elif hasattr(ll.Tensor, name) and name not in REFUSED:
            have.append(f"`{name}`")
        elif name in nn.__all__:
            have.append(f"`nn.{name}`")
        else:
            lack.append(f"`{name}`")
    return have, lack


def public(cls: type) -> list[str]:
    """Return the public attributes of a class."""
    return [name for name in dir(cls) if not name.startswith("_")]


if __name__ == "__main__":
    main()
