// kernel conv(x: f32[2, 9, 9], w: f32[8, 2, 3, 3]) -> (y: f32[8, 9, 9])
//   y[o < 8, i < 9, j < 9] = sum c < 2: sum p < 3: sum q < 3: fused(w[o, c, p, q] * [0 < i + p and
//       0 < j + q and i + p < 10 and j + q < 10: x[c, i + p - 1, j + q - 1]])
static void kernel_conv__0(LAB_GIVEN) {
    const float *restrict x = lab_buffers[0];
    float *restrict padded = lab_buffers[2];
    const lab_i64 padded_ci = lab_task;
    if (0 < padded_ci % 11 && padded_ci % 11 < 10) {
        lab_i64 v0 = 0;
        LAB_HIDE(v0);
#pragma omp simd
        for (lab_i64 padded_j = 0; padded_j < 11; padded_j++) {
            padded[11*padded_ci + padded_j] =
                0 < padded_j + v0 && padded_j + v0 < 10
                ? x[81*(padded_ci / 11) + 9*(padded_ci % 11) + padded_j - 10] : 0;
        }
    } else {
#pragma omp simd
        for (lab_i64 padded_j = 0; padded_j < 11; padded_j++) {
            padded[11*padded_ci + padded_j] = 0.0f;
        }
    }
}

static void kernel_conv__1(LAB_GIVEN) {
    const float *restrict w = lab_buffers[1];
    const float *restrict padded = lab_buffers[2];
    float *restrict y = lab_buffers[3];
    const lab_i64 o_block = lab_task;
    float columns[144] LAB_ALIGNED;
    for (lab_i64 columns_c = 0; columns_c < 2; columns_c++) {
        for (lab_i64 columns_p = 0; columns_p < 3; columns_p++) {
            for (lab_i64 columns_q = 0; columns_q < 3; columns_q++) {
#pragma omp simd
                for (lab_i64 columns_o_own = 0; columns_o_own < 8; columns_o_own++) {
                    columns[72*columns_c + 24*columns_p + 8*columns_q + columns_o_own] =
                        w[144*o_block + 18*columns_o_own + 9*columns_c + 3*columns_p + columns_q];
                }
            }
        }
    }
    for (lab_i64 ij_tile = 0; ij_tile < 7; ij_tile++) {
        lab_f32x8 t[12];
        LAB_UNROLL(12)
        for (int ij_start_own = 0; ij_start_own < 12; ij_start_own++) {
            t[ij_start_own] = (lab_f32x8){0};
        }
        for (lab_i64 c = 0; c < 2; c++) {
            LAB_UNROLL(3)
            for (int p = 0; p < 3; p++) {
                LAB_STEP;
                LAB_UNROLL(3)
                for (int q = 0; q < 3; q++) {
                    LAB_STEP;
                    LAB_UNROLL(12)
                    for (int ij_sum_own = 0; ij_sum_own < 12; ij_sum_own++) {
                        t[ij_sum_own] =
                            LAB_FMA(lab_f32x8, LAB_LANES(lab_f32x8, columns + (72*c + 24*p + 8*q)),
                            padded[121*c
                            + 11*((12*ij_tile + lab_min(80 - 12*ij_tile, ij_sum_own)) / 9) + 11*p
                            + (12*ij_tile + lab_min(80 - 12*ij_tile, ij_sum_own)) % 9 + q],
                            t[ij_sum_own]);
                    }
                }
            }
        }
        float tile[96] LAB_ALIGNED;
        LAB_UNROLL(12)
        for (int tile_ij_own = 0; tile_ij_own < 12; tile_ij_own++) {
            LAB_LANES(lab_f32x8, tile + 8*tile_ij_own) = t[tile_ij_own];
        }
        if (11 < lab_min(12, 81 - 12*ij_tile)) {
            lab_across_f32(y + (648*o_block + 12*ij_tile), 81, tile, 8, 12, 8);
        } else {
            for (lab_i64 o_end_own = 0; o_end_own < 8; o_end_own++) {
#pragma omp simd
                for (lab_i64 ij_end_own = 0; ij_end_own < lab_min(12, 81 - 12*ij_tile);
                    ij_end_own++) {
                    y[648*o_block + 81*o_end_own + 12*ij_tile + ij_end_own] =
                        tile[8*ij_end_own + o_end_own];
                }
            }
        }
    }
}
