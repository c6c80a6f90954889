"""Arguments for ops that PyTorch's own samples do not reach: those that it takes apart at once."""

SAMPLES = """
adaptive_avg_pool1d | f(2, 3, 8), [4]
adaptive_avg_pool1d | f(3, 7), [3]
adaptive_avg_pool2d | f(2, 3, 8, 6), [4, 2]
adaptive_avg_pool3d | f(1, 2, 4, 4, 6), [2, 2, 3]
argsort | f(3, 4), 0, True
argsort | f(3, 4)
argsort.stable | f(3, 4), stable=True, dim=1, descending=False
atleast_1d | f()
atleast_2d | f(3)
atleast_3d | f(3, 2)
avg_pool1d | f(2, 3, 9), [3], [2], [1]
bilinear | f(2, 3), f(2, 4), f(5, 3, 4), f(5)
chunk | f(7, 2), 3
clamp_max | f(3), 0.5
clamp_min | f(3), 0.5
clip | f(3), -0.5, 0.5
clip.Tensor | f(3), f(3), None
col2im | f(1, 12, 9), [4, 4], [2, 2], [1, 1], [0, 0], [1, 1]
concat | [f(2, 3), f(1, 3)]
contiguous | f(2, 3)
copy | f(2, 3), i(3)
detach_copy | f(3)
div.Scalar_mode | f(4), 0.3, rounding_mode="floor"
div.Scalar_mode | i(4), 3, rounding_mode="trunc"
dropout | f(3), 0.5, False
einsum | "bij,bjk->bik", [f(2, 3, 4), f(2, 4, 5)]
einsum | "ii->i", [f(3, 3)]
expand_as | f(3, 1), f(3, 4)
feature_dropout | f(2, 3, 4), 0.5, False
fill.Scalar | i(2, 3), 7
fill.Tensor | f(2, 3), f()
fix | f(4) * 3
flatten.using_ints | f(2, 3, 4), 1, 2
floor_divide.Scalar | f(4) * 9, 2
fmod.Scalar | f(4) * 9, 2
group_norm | f(2, 6, 3), 3, f(6), f(6)
gt.Scalar | f(4), 0.1
inner | f(2, 3), f(4, 3)
instance_norm | f(2, 3, 5), f(3), f(3), None, None, True, 0.1, 1e-5, False
instance_norm | f(2, 3, 5), f(3), f(3), f(3), f(3).abs(), False, 0.1, 1e-5, False
isclose | f(3), f(3)
isfinite | f(3) / 0
kron | f(2, 3), f(3, 2)
layer_norm | f(2, 3, 4), [3, 4], f(3, 4), f(3, 4)
lift_fresh_copy | f(2)
linear | f(2, 3), f(4, 3), f(4)
linear | f(5, 2, 3), f(4, 3)
log_sigmoid | f(4)
log_softmax.int | f(2, 3), 1
log_softmax.int | f(), 0
matmul | f(2, 3, 4), f(4, 5)
matmul | f(4), f(4)
max_pool1d | f(2, 3, 9), [3], [2], [1]
max_pool1d_with_indices | f(2, 3, 9), [3], [2], [1]
max_pool2d | f(2, 3, 9, 8), [3, 2], [2, 2], [1, 1], [1, 1], True
max_pool2d | f(3, 9, 8), [2, 2]
max_pool3d | f(1, 2, 5, 5, 5), [2, 2, 2]
movedim.int | f(2, 3, 4), 0, 2
movedim.intlist | f(2, 3, 4), [0, 1], [2, 0]
narrow | f(5, 2), 0, 1, 3
norm.Scalar | f(5), 2
numpy_T | f(2, 3)
one_hot | i(4), 9
outer | f(2), f(3)
pad | f(2, 3), [1, 2], "constant", 3.0
pad | f(1, 2, 5), [1, 2], "reflect"
pad | f(1, 2, 5), [-1, 2], "replicate"
positive | f(3)
pow.Scalar | 2.0, f(3)
prelu | f(2, 3, 4), f(3)
relu6 | f(5) * 9
repeat_interleave.self_int | f(2, 3), 2, 1
reshape | f(2, 6), [3, -1]
reshape_as | f(2, 6), f(4, 3)
rms_norm | f(2, 3, 4), [4], f(4), 1e-5
rms_norm | f(2, 4), [4]
scaled_dot_product_attention | f(2, 4, 5, 8), f(2, 4, 6, 8), f(2, 4, 6, 8)
scaled_dot_product_attention | f(2, 4, 5, 8), f(2, 4, 5, 8), f(2, 4, 5, 8), None, 0.0, True
scaled_dot_product_attention | f(1, 4, 5, 8), f(1, 2, 5, 8), f(1, 2, 5, 8), enable_gqa=True
scaled_dot_product_attention | f(2, 5, 8), f(2, 6, 8), f(2, 6, 8), f(5, 6)
scatter.value | f(3, 4), 1, i(3, 2), 9.0
select_copy.int | f(3, 4), 1, -1
selu | f(4)
slice_copy.Tensor | f(6, 2), 0, 1, 9, 2
slice_scatter | f(6, 2), f(3, 2), 0, 1, 4
slice_scatter | f(6, 2), f(3, 2), 0, 0, 9223372036854775807, 2
slice_scatter | f(6, 2), f(6, 2), 0
softmax.int | f(2, 3), 0
softmax.int | f(), 0
special_softmax | f(2, 3), 0
split.sizes | f(5, 2), [2, 3]
square | f(3)
std | f(3, 4)
std.dim | f(3, 4), [1], False
sym_numel | f(3, 4)
sym_is_contiguous | f(2, 3), torch.contiguous_format
sym_size.int | f(3, 4), 1
sym_storage_offset | f(3, 4)
sym_stride.int | f(3, 4), 0
take_along_dim | f(3, 4), i(3, 1), 1
tile | f(2, 3), [2, 1, 2]
_to_copy | f(3) * 9, dtype=torch.int64
true_divide.Tensor | i(3), i(3) + 1
type_as | f(3) * 9, i(1)
unflatten.int | f(2, 6), 1, [2, 3]
upsample_bicubic2d.vec | f(1, 2, 4, 5), [6, 7], False, None
upsample_bicubic2d.vec | f(1, 2, 4, 5), None, True, [2.0, 1.5]
upsample_bilinear2d.vec | f(1, 2, 4, 5), [6, 7], True, None
upsample_bilinear2d.vec | f(1, 2, 4, 5), None, False, [1.7, 0.6]
upsample_linear1d.vec | f(1, 2, 5), [7], False, None
upsample_nearest1d.vec | f(1, 2, 5), [7], None
upsample_nearest2d.vec | f(1, 2, 4, 5), None, [2.0, 2.0]
upsample_nearest3d.vec | f(1, 2, 2, 3, 2), [4, 5, 6], None
upsample_trilinear3d.vec | f(1, 2, 2, 3, 2), [4, 5, 6], False, None
_upsample_nearest_exact3d | f(1, 2, 2, 3, 2), [4, 5, 6]
var | f(3, 4)
var.dim | f(3, 4), [1], False
view_as | f(2, 6), f(4, 3)
where.Scalar | b(3), 1.0, 2.0
where.ScalarOther | b(3), f(3), 2.0
where.ScalarSelf | b(3), 1.0, f(3)
xlogy.Scalar_Other | f(3).abs(), 2.0
maximum | f(3), f(3)
maximum | i(3), f(3)
minimum | f(3), f(3)
bitwise_and.Scalar | b(3), True
bitwise_or.Scalar | b(3), True
bitwise_or.Scalar | i(3), 5
bitwise_xor.Scalar | b(3), True
div.Tensor_mode | f(9), f(9), rounding_mode="floor"
div.Tensor_mode | f(9), f(9), rounding_mode="trunc"
div.Tensor_mode | i(9) - 2, i(9) + 1, rounding_mode="trunc"
div.Tensor_mode | i(9) - 2, i(9) + 1, rounding_mode="floor"
round.decimals | f(9) * 9, decimals=1
scatter.src | f(3, 4), 1, i(3, 4), f(3, 4)
scatter_reduce.two | f(3, 4), 1, i(3, 4), f(3, 4), "sum"
scatter_reduce.two | f(3, 4), 1, i(3, 4), f(3, 4), "amax", include_self=False
scatter_reduce.two | f(3, 4), 0, i(3, 4), f(3, 4), "mean"
scatter_reduce.two | f(3, 4), 0, i(3, 4), f(3, 4), "prod"
squeeze.dims | f(1, 3, 1), [0, 2]
reflection_pad1d | f(2, 5), [2, 1]
reflection_pad2d | f(1, 2, 5, 4), [2, 1, 0, 3]
reflection_pad3d | f(1, 2, 3, 5, 4), [2, 1, 0, 3, 1, 1]
replication_pad1d | f(2, 5), [2, 1]
replication_pad2d | f(1, 2, 5, 4), [2, 1, 0, 3]
replication_pad2d | f(1, 2, 4, 4), [-1, 5, 0, 2]
replication_pad3d | f(1, 2, 3, 5, 4), [2, 1, 0, 3, 1, 1]
constant_pad_nd | f(2, 5), [2, 1, -1, 0], 3.0
max | f(3, 4)
min | f(3, 4)
max.dim | f(3, 4), 1, True
max.dim | f(), 0
min.dim | f(3, 4), 0
cummax | f(3, 4), 1
cummax | i(3, 4), 0
cummin | f(3, 4), 1
index_add | f(3, 4), 1, i(3), f(3, 3), alpha=2
index_copy | f(3, 4), 0, torch.tensor([2, 0]), f(2, 4)
index_copy | f(), 0, torch.tensor([0]), f(1)
index_fill.int_Scalar | i(3, 4), 1, i(2), 7
zeros | [2, 3]
upsample_nearest1d | f(1, 2, 5), [7]
upsample_nearest2d | f(1, 2, 4, 4), [6, 6], 1.7, 1.7
upsample_nearest3d | f(1, 2, 2, 3, 2), [4, 5, 6]
_upsample_nearest_exact1d | f(1, 2, 5), [7]
_upsample_nearest_exact2d | f(1, 2, 4, 4), [6, 6], 1.7, 1.7
upsample_linear1d | f(1, 2, 5), [7], True
upsample_bilinear2d | f(1, 2, 4, 5), [6, 7], False
upsample_trilinear3d | f(1, 2, 2, 3, 2), [4, 5, 6], False
upsample_bicubic2d | f(1, 2, 4, 5), [6, 7], False
_embedding_bag | f(5, 3), i(6), torch.tensor([0, 2, 2]), False, 1
_embedding_bag_forward_only | f(5, 3), i(6), torch.tensor([0, 2]), False, 0, False, f(6)
grid_sampler_2d | f(1, 2, 4, 5), f(1, 3, 3, 2) / 2, 0, 0, False
grid_sampler_2d | f(1, 2, 4, 5), f(1, 3, 3, 2) / 2, 1, 1, True
grid_sampler_3d | f(1, 2, 3, 4, 5), f(1, 2, 3, 3, 3) / 2, 0, 2, False
as_strided_scatter | f(12), f(2, 3), [2, 3], [4, 1], 2
convolution_backward | f(2, 4, 5, 5), f(2, 3, 5, 5), f(4, 3, 3, 3), [4], *CONV, [True] * 3
avg_pool2d_backward | f(2, 3, 4, 4), f(2, 3, 8, 8), [2, 2], [2, 2], [0, 0], False, True, None
avg_pool3d_backward | f(1, 2, 2, 2, 2), X3, [2] * 3, [2] * 3, [0] * 3, False, True, None
_adaptive_avg_pool2d_backward | f(2, 3, 4, 2), f(2, 3, 8, 6)
_adaptive_avg_pool3d_backward | f(1, 2, 2, 2, 2), X3
replication_pad1d_backward | f(1, 2, 8), f(1, 2, 5), [2, 1]
replication_pad2d_backward | f(1, 2, 8, 7), f(1, 2, 5, 4), [2, 1, 0, 3]
replication_pad3d_backward | f(1, 2, 5, 8, 7), f(1, 2, 3, 5, 4), [2, 1, 0, 3, 1, 1]
upsample_nearest2d_backward | f(1, 2, 8, 10), [8, 10], [1, 2, 4, 5]
max_pool2d_with_indices_backward | f(1, 2, 2, 2), X2, *POOL2, AT2
max_pool3d_with_indices_backward | f(1, 2, 2, 2, 2), X3, *POOL3, AT3
_scaled_dot_product_flash_attention_for_cpu | f(1, 2, 5, 8), f(1, 2, 5, 8), f(1, 2, 5, 8)
_cdist_forward | f(4, 3), f(5, 3), 1.0, None
_pdist_forward | f(4, 3), 2.0
_adaptive_avg_pool2d | f(2, 3, 8, 6), [4, 2]
_fused_rms_norm | f(2, 4), [4], f(4), 1e-5
_native_batch_norm_legit_functional | f(4, 3), f(3), f(3), f(3), f(3).abs(), True, 0.1, 1e-5
_native_batch_norm_legit_no_training | f(4, 3), f(3), f(3), f(3), f(3).abs(), 0.1, 1e-5
_unsafe_index.Tensor | f(3, 4), [i(2), i(2)]
_unsafe_index.Tensor | f(3, 4, 5), [None, i(2, 1), i(3)]
_unsafe_index_put | f(3, 4), [i(2), i(2)], f(2), True
index_put | f(3, 4, 5), [None, i(2)], f(3, 2, 5)
index_put | f(3, 4, 5), [i(2), None, i(2)], f(2, 4)
index_put | f(3, 4), [b(3, 4)], f()
index_put | f(3, 4), [i(2, 2)], f(4)
as_strided | f(12), [2, 3], [4, 1], 2
"""
"""An op and the arguments of a call; f, i and b draw floats, small integers and bools."""
CONV = [1, 1], [1, 1], [1, 1], False, [0, 0], 1
"""The options of a convolution: strides, padding, dilation, not transposed, one group."""
POOL2, POOL3 = (([2] * n, [2] * n, [0] * n, [1] * n, False) for n in (2, 3))
"""The options of a pool: size, strides, padding, dilation, rounded down."""
