// kernel matmul(a: f32[128, 64], b: f32[64, 96]) -> (c: f32[128, 96])
//   c[i < 128, j < 96] = sum k < 64: fused(a[i, k] * b[k, j])
static void kernel_matmul__0(LAB_GIVEN) {
    const float *restrict b = lab_buffers[1];
    float *restrict columns = lab_buffers[2];
    const lab_i64 columns_j_o = lab_task;
    for (lab_i64 columns_k = 0; columns_k < 64; columns_k++) {
#pragma omp simd
        for (lab_i64 columns_j_i_2 = 0; columns_j_i_2 < 16; columns_j_i_2++) {
            columns[1024*columns_j_o + 16*columns_k + columns_j_i_2] =
                b[96*columns_k + 16*columns_j_o + columns_j_i_2];
        }
    }
}

static void kernel_matmul__1(LAB_GIVEN) {
    const float *restrict a = lab_buffers[0];
    const float *restrict columns = lab_buffers[2];
    float *restrict c = lab_buffers[3];
    const lab_i64 i_o_o = lab_task;
    for (lab_i64 i_o_i = 0; i_o_i < lab_min(16, 22 - 16*i_o_o); i_o_i++) {
        for (lab_i64 j_o = 0; j_o < 6; j_o++) {
            lab_f32x8 t[12];
            LAB_UNROLL(6)
            for (int i_i = 0; i_i < 6; i_i++) {
                LAB_UNROLL(2)
                for (int j_i_o = 0; j_i_o < 2; j_i_o++) {
                    t[2*i_i + j_i_o] = (lab_f32x8){0};
                }
            }
            for (lab_i64 k = 0; k < 64; k++) {
                LAB_UNROLL(6)
                for (int i_i_2 = 0; i_i_2 < 6; i_i_2++) {
                    LAB_UNROLL(2)
                    for (int j_i_2_o = 0; j_i_2_o < 2; j_i_2_o++) {
                        t[2*i_i_2 + j_i_2_o] =
                            LAB_FMA(lab_f32x8,
                            a[6144*i_o_o + 384*i_o_i + 64*lab_min(127 - 96*i_o_o - 6*i_o_i, i_i_2)
                            + k], LAB_LANES(lab_f32x8, columns + (1024*j_o + 16*k + 8*j_i_2_o)),
                            t[2*i_i_2 + j_i_2_o]);
                    }
                }
            }
            float tile[96] LAB_ALIGNED;
            LAB_UNROLL(6)
            for (int tile_i_i_3 = 0; tile_i_i_3 < 6; tile_i_i_3++) {
                LAB_UNROLL(2)
                for (int tile_j_i_3_o = 0; tile_j_i_3_o < 2; tile_j_i_3_o++) {
                    LAB_LANES(lab_f32x8, tile + (16*tile_i_i_3 + 8*tile_j_i_3_o)) =
                        t[2*tile_i_i_3 + tile_j_i_3_o];
                }
            }
            for (lab_i64 i_i_3 = 0; i_i_3 < lab_min(128 - 96*i_o_o - 6*i_o_i, 6); i_i_3++) {
#pragma omp simd
                for (lab_i64 j_i_3 = 0; j_i_3 < 16; j_i_3++) {
                    c[9216*i_o_o + 576*i_o_i + 96*i_i_3 + 16*j_o + j_i_3] = tile[16*i_i_3 + j_i_3];
                }
            }
        }
    }
}
