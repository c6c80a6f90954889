// kernel matmul(a: f32[128, 64], b: f32[64, 96]) -> (c: f32[128, 96])
//   c[i < 128, j < 96] = sum k < 64: fused(a[i, k] * b[k, j])
static void kernel_matmul(LAB_GIVEN) {
    const float *restrict a = lab_buffers[0];
    const float *restrict b = lab_buffers[1];
    float *restrict c = lab_buffers[2];
    const lab_i64 j_block = lab_task;
    float columns[1024] LAB_ALIGNED;
    for (lab_i64 columns_k = 0; columns_k < 64; columns_k++) {
#pragma omp simd
        for (lab_i64 columns_j_own = 0; columns_j_own < 16; columns_j_own++) {
            columns[16*columns_k + columns_j_own] = b[96*columns_k + 16*j_block + columns_j_own];
        }
    }
    for (lab_i64 i_tile = 0; i_tile < 22; i_tile++) {
        lab_f32x8 t[12];
        LAB_UNROLL(6)
        for (int i_start_own = 0; i_start_own < 6; i_start_own++) {
            LAB_UNROLL(2)
            for (int j_start_vector = 0; j_start_vector < 2; j_start_vector++) {
                t[2*i_start_own + j_start_vector] = (lab_f32x8){0};
            }
        }
        for (lab_i64 k = 0; k < 64; k++) {
            LAB_UNROLL(6)
            for (int i_sum_own = 0; i_sum_own < 6; i_sum_own++) {
                LAB_UNROLL(2)
                for (int j_sum_vector = 0; j_sum_vector < 2; j_sum_vector++) {
                    t[2*i_sum_own + j_sum_vector] =
                        LAB_FMA(lab_f32x8,
                        a[384*i_tile + 64*lab_min(127 - 6*i_tile, i_sum_own) + k],
                        LAB_LANES(lab_f32x8, columns + (16*k + 8*j_sum_vector)),
                        t[2*i_sum_own + j_sum_vector]);
                }
            }
        }
        float tile[96] LAB_ALIGNED;
        LAB_UNROLL(6)
        for (int tile_i_own = 0; tile_i_own < 6; tile_i_own++) {
            LAB_UNROLL(2)
            for (int tile_j_vector = 0; tile_j_vector < 2; tile_j_vector++) {
                LAB_LANES(lab_f32x8, tile + (16*tile_i_own + 8*tile_j_vector)) =
                    t[2*tile_i_own + tile_j_vector];
            }
        }
        for (lab_i64 i_end_own = 0; i_end_own < lab_min(128 - 6*i_tile, 6); i_end_own++) {
#pragma omp simd
            for (lab_i64 j_end_own = 0; j_end_own < 16; j_end_own++) {
                c[576*i_tile + 96*i_end_own + 16*j_block + j_end_own] =
                    tile[16*i_end_own + j_end_own];
            }
        }
    }
}
