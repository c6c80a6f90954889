"""Why operators of PyTorch are not here, or not in all of their samples."""

ABSENT: dict[str, str] = {
    "there are no complex dtypes; a Fourier transform gives a pair of tensors": """
        cdouble cfloat chalf complex polar view_as_complex stft angle isreal linalg.eig
        linalg.eigvals""",
    "singular and eigenvalues take an iteration of unknown length": """
        svd svd_lowrank pca_lowrank pinverse linalg.svd linalg.svdvals linalg.pinv linalg.cond
        linalg.matrix_rank linalg.lstsq linalg.eigh linalg.eigvalsh linalg.ldl_factor
        linalg.ldl_factor_ex linalg.ldl_solve""",
    "tensors are dense": "sparse.sampled_addmm sparse.mm to_sparse",
    "strides and storage belong to no lazy tensor": """
        as_strided as_strided_copy as_strided_scatter new_empty_strided empty_strided empty_permuted
        resize_ resize_as_ hash_tensor""",
    "a tensor does not change in place, also not by drawing": """
        cauchy exponential geometric log_normal normal uniform""",
    "drawn otherwise, or not at all": """
        multinomial nn.functional.alpha_dropout nn.functional.feature_alpha_dropout
        nn.functional.rrelu nn.functional.fractional_max_pool2d
        nn.functional.fractional_max_pool3d""",
    "a step inside PyTorch, of its gradients or its modules": """
        _softmax_backward_data max_pool2d_with_indices_backward native_dropout_backward
        native_group_norm native_layer_norm native_batch_norm _native_batch_norm_legit
        _batch_norm_with_update _chunk_cat _segment_reduce _unsafe_masked_index
        _unsafe_masked_index_put_accumulate _upsample_bilinear2d_aa
        torch.ops.aten._safe_softmax.default nn.functional.multi_head_attention_forward
        jiterator_unary jiterator_binary jiterator_4inputs_with_extra_args
        jiterator_binary_return_by_ref jiterator_2inputs_2outputs broadcast_shapes""",
    "written with `where`: `mask.where(x, 0).sum()`, `mask.where(x, -inf).softmax(-1)`": """
        masked.sum masked.prod masked.cumsum masked.cumprod masked.amax masked.amin masked.argmax
        masked.argmin masked.mean masked.median masked.norm masked.var masked.std masked.softmax
        masked.log_softmax masked.softmin masked.normalize masked.logaddexp masked.logsumexp""",
    "the degree comes from data": """
        special.chebyshev_polynomial_t special.chebyshev_polynomial_u
        special.chebyshev_polynomial_v special.chebyshev_polynomial_w
        special.hermite_polynomial_h special.hermite_polynomial_he
        special.laguerre_polynomial_l special.legendre_polynomial_p
        special.shifted_chebyshev_polynomial_t special.shifted_chebyshev_polynomial_u
        special.shifted_chebyshev_polynomial_v special.shifted_chebyshev_polynomial_w""",
    "a special function without a formula here": """
        igamma igammac special.zeta special.airy_ai special.bessel_j0 special.bessel_j1
        special.bessel_y0 special.bessel_y1 special.modified_bessel_k0 special.modified_bessel_k1
        special.scaled_modified_bessel_k0 special.scaled_modified_bessel_k1
        special.spherical_bessel_j0""",
    "bits of floats are not read": "frexp nextafter",
    "a window is a line of `cx.arange` and `cos`": """
        signal.windows.hamming signal.windows.hann signal.windows.bartlett signal.windows.blackman
        signal.windows.cosine signal.windows.exponential signal.windows.gaussian
        signal.windows.kaiser signal.windows.general_cosine signal.windows.general_hamming
        signal.windows.nuttall""",
    "a sum or difference of other operations, as `x + (a @ b).sum(0)`": """
        addbmm addr gradient cumulative_trapezoid combinations""",
    "a histogram other than `histc`": "histogram histogramdd",
    "a loss or a layer that is not here": """
        nn.functional.multi_margin_loss nn.functional.multilabel_margin_loss
        nn.functional.triplet_margin_with_distance_loss nn.functional.embedding_bag
        nn.functional.ctc_loss""",
}
"""Names without a counterpart, by the reason."""

DIFFERS: dict[str, str] = {
    "cholesky_inverse": "PyTorch has a gradient for the triangle that is not read; here it is 0",
    "cholesky_solve": "PyTorch has a gradient for the triangle that is not read; here it is 0",
    "nn.functional.linear_cross_entropy": "weights of more than two axes are refused",
    "nn.functional.batch_norm": "a tensor without elements and channels is refused",
    "__getitem__": "a mask would give a shape that depends on data: x.masked_select(mask, size=…)",
    "index_put": "a mask as an index is refused: mask.where(values, x)",
    "norm": "the nuclear norm takes singular values",
    "linalg.norm": "the norms 2, -2 and nuclear of matrices take singular values",
    "linalg.matrix_norm": "the norms 2, -2 and nuclear take singular values",
}
"""Names some of whose samples differ, or are refused, with the reason."""
