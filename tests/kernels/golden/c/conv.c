// kernel conv(x: f32[2, 9, 9], w: f32[8, 2, 3, 3]) -> (y: f32[8, 9, 9])
//   y[o < 8, i < 9, j < 9] = sum c < 2: sum p < 3: sum q < 3: w[o, c, p, q] * [0 < i + p and 0 < j
//       + q and i + p < 10 and j + q < 10: x[c, i + p - 1, j + q - 1]]
static void kernel_conv(LAB_GIVEN) {
    const float *restrict x = lab_buffers[0];
    const float *restrict w = lab_buffers[1];
    float *restrict y = lab_buffers[2];
    const lab_i64 i_j_o_o = lab_task;
    float columns[288] LAB_ALIGNED;
    for (lab_i64 columns_i_j_o_i = 0; columns_i_j_o_i < 1; columns_i_j_o_i++) {
        for (lab_i64 columns_c_p_q = 0; columns_c_p_q < 18; columns_c_p_q++) {
#pragma omp simd
            for (lab_i64 columns_i_j_i_2 = 0; columns_i_j_i_2 < 16; columns_i_j_i_2++) {
                columns[288*columns_i_j_o_i + 16*columns_c_p_q + columns_i_j_i_2] =
                    columns_c_p_q / 3 % 3 + (16*columns_i_j_o_i + 16*i_j_o_o + columns_i_j_i_2) / 9
                    < 10
                    && (16*columns_i_j_o_i + 16*i_j_o_o + columns_i_j_i_2) % 9 + columns_c_p_q % 3
                    < 10
                    && 0
                    < columns_c_p_q / 3 % 3
                    + (16*columns_i_j_o_i + 16*i_j_o_o + columns_i_j_i_2) / 9
                    && 0
                    < (16*columns_i_j_o_i + 16*i_j_o_o + columns_i_j_i_2) % 9 + columns_c_p_q % 3
                    && 16*columns_i_j_o_i + 16*i_j_o_o + columns_i_j_i_2 < 81
                    ? x[81*(columns_c_p_q / 9) + 16*columns_i_j_o_i + 16*i_j_o_o
                    + 9*(columns_c_p_q / 3 % 3) + columns_c_p_q % 3 + columns_i_j_i_2 - 10] : 0;
            }
        }
    }
    for (lab_i64 o_o = 0; o_o < 2; o_o++) {
        for (lab_i64 i_j_o_i = 0; i_j_o_i < 1; i_j_o_i++) {
            lab_f32x8 t[12];
            LAB_UNROLL(6)
            for (int o_i = 0; o_i < 6; o_i++) {
                LAB_UNROLL(2)
                for (int i_j_i_o = 0; i_j_i_o < 2; i_j_i_o++) {
                    t[2*o_i + i_j_i_o] = (lab_f32x8){0};
                }
            }
            for (lab_i64 c_p_q = 0; c_p_q < 18; c_p_q++) {
                LAB_UNROLL(6)
                for (int o_i_2 = 0; o_i_2 < 6; o_i_2++) {
                    LAB_UNROLL(2)
                    for (int i_j_i_2_o = 0; i_j_i_2_o < 2; i_j_i_2_o++) {
                        t[2*o_i_2 + i_j_i_2_o] +=
                            w[108*o_o + 18*lab_min(7 - 6*o_o, o_i_2) + c_p_q]
                            * LAB_LANES(lab_f32x8,
                            columns + (288*i_j_o_i + 16*c_p_q + 8*i_j_i_2_o));
                    }
                }
            }
            float tile[96] LAB_ALIGNED;
            LAB_UNROLL(6)
            for (int tile_o_i_3 = 0; tile_o_i_3 < 6; tile_o_i_3++) {
                LAB_UNROLL(2)
                for (int tile_i_j_i_3_o = 0; tile_i_j_i_3_o < 2; tile_i_j_i_3_o++) {
                    LAB_LANES(lab_f32x8, tile + (16*tile_o_i_3 + 8*tile_i_j_i_3_o)) =
                        t[2*tile_o_i_3 + tile_i_j_i_3_o];
                }
            }
            for (lab_i64 o_i_3 = 0; o_i_3 < lab_min(6, 8 - 6*o_o); o_i_3++) {
#pragma omp simd
                for (lab_i64 i_j_i_3 = 0; i_j_i_3 < lab_min(16, 81 - 16*i_j_o_i - 16*i_j_o_o);
                    i_j_i_3++) {
                    y[486*o_o + 81*o_i_3 + 16*i_j_o_i + 16*i_j_o_o + i_j_i_3] =
                        tile[16*o_i_3 + i_j_i_3];
                }
            }
        }
    }
}
