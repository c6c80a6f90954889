// kernel half_matmul(a: f16[n, 40], b: f16[48, 40], z: f16[48]) -> (c: f16[n, 48])
//   c[i < n, j < 48] = (sum k < 40: fused(a[i, k] * b[j, k])) + z[j]
kernel void kernel_half_matmul(
    device const lab_f16 *a [[buffer(0)]],
    device const lab_f16 *b [[buffer(1)]],
    device const lab_f16 *z [[buffer(2)]],
    device lab_f16 *c [[buffer(3)]],
    constant lab_i64 &n [[buffer(4)]],
    uint lab_block [[threadgroup_position_in_grid]],
    uint lab_thread [[thread_position_in_threadgroup]]
) {
    threadgroup __attribute__((aligned(16))) lab_f16 rows[2560];
    threadgroup __attribute__((aligned(16))) lab_f16 columns[2560];
    const lab_i64 i_block = lab_block;
    const lab_i64 j_block = 0;
    float t[32];
    #pragma unroll
    for (int i_start_tile = 0; i_start_tile < 4; i_start_tile++) {
        #pragma unroll
        for (int j_start_tile = 0; j_start_tile < 4; j_start_tile++) {
            #pragma unroll
            for (int v0 = 0; v0 < 2; v0++) {
                t[8*i_start_tile + 2*j_start_tile + v0] = 0.0f;
            }
        }
    }
    for (int k_step = 0; k_step < 2; k_step++) {
        lab_sync();
        const int rows_i_tile = lab_thread / 32;
        const int rows_i_own = lab_thread / 4 % 8;
        const int rows_k_part = lab_thread % 4;
        #pragma unroll
        for (int rows_i_warp = 0; rows_i_warp < 2; rows_i_warp++) {
            const lab_f16x8 v1 =
                4*k_step + rows_k_part < 5
                && 64*i_block + 32*rows_i_warp + 8*rows_i_tile + rows_i_own < n
                ? LAB_LOAD(lab_f16x8, a,
                2560*i_block + 1280*rows_i_warp + 320*rows_i_tile + 40*rows_i_own + 32*k_step
                + 8*rows_k_part) : lab_f16x8();
            lab_f16x8 v2;
            #pragma unroll
            for (int rows_k_lane = 0; rows_k_lane < 8; rows_k_lane++) {
                v2.at[rows_k_lane] = v1.at[rows_k_lane];
            }
            LAB_STORE_SHARED(lab_f16x8, rows,
                1280*rows_i_warp + 320*rows_i_tile + 40*rows_i_own + 8*rows_k_part, v2);
        }
        const int columns_j_tile = lab_thread / 32;
        const int columns_j_own = lab_thread / 4 % 8;
        const int columns_k_part = lab_thread % 4;
        #pragma unroll
        for (int columns_j_warp = 0; columns_j_warp < 2; columns_j_warp++) {
            const lab_f16x8 v3 =
                64*j_block + 32*columns_j_warp + 8*columns_j_tile + columns_j_own < 48
                && 4*k_step + columns_k_part < 5
                ? LAB_LOAD(lab_f16x8, b,
                2560*j_block + 1280*columns_j_warp + 320*columns_j_tile + 40*columns_j_own
                + 32*k_step + 8*columns_k_part) : lab_f16x8();
            lab_f16x8 v4;
            #pragma unroll
            for (int columns_k_lane = 0; columns_k_lane < 8; columns_k_lane++) {
                v4.at[columns_k_lane] = v3.at[columns_k_lane];
            }
            LAB_STORE_SHARED(lab_f16x8, columns,
                1280*columns_j_warp + 320*columns_j_tile + 40*columns_j_own + 8*columns_k_part, v4);
        }
        lab_sync();
        const int i_sum_warp = lab_thread / 64;
        const int j_sum_warp = lab_thread / 32 % 2;
        #pragma unroll
        for (int k_part = 0; k_part < 4; k_part++) {
            lab_u32 v6[4][1];
            #pragma unroll
            for (int j_sum_tile = 0; j_sum_tile < 4; j_sum_tile++) {
                lab_tile_b_f16(v6[j_sum_tile],
                    columns + (1280*j_sum_warp + 320*j_sum_tile + 8*k_part), 1, 40);
            }
            #pragma unroll
            for (int i_sum_tile = 0; i_sum_tile < 4; i_sum_tile++) {
                lab_u32 v5[1];
                lab_tile_a_f16(v5, rows + (1280*i_sum_warp + 320*i_sum_tile + 8*k_part), 40);
                #pragma unroll
                for (int j_sum_tile = 0; j_sum_tile < 4; j_sum_tile++) {
                    lab_mma_f16(&t[8*i_sum_tile + 2*j_sum_tile], v5, v6[j_sum_tile]);
                }
            }
        }
    }
    const int i_end_warp = lab_thread / 64;
    const int j_end_warp = lab_thread / 32 % 2;
    #pragma unroll
    for (int i_end_tile = 0; i_end_tile < 4; i_end_tile++) {
        #pragma unroll
        for (int j_end_tile = 0; j_end_tile < 4; j_end_tile++) {
            #pragma unroll
            for (int v7 = 0; v7 < 2; v7++) {
                const int i_end_own = lab_tile_row(v7);
                const int j_end_own = lab_tile_column(v7);
                if (64*i_block + 32*i_end_warp + 8*i_end_tile + i_end_own < n) {
                    if (64*j_block + 32*j_end_warp + 8*j_end_tile + j_end_own < 48) {
                        const float v8 =
                            lab_cast_f16_f32(z[64*j_block + 32*j_end_warp + 8*j_end_tile
                            + j_end_own]);
                        const float v9 =
                            lab_cast_f16_f32(lab_cast_f32_f16(t[8*i_end_tile + 2*j_end_tile + v7]));
                        c[3072*i_block + 1536*i_end_warp + 384*i_end_tile + 64*j_block
                            + 48*i_end_own + 32*j_end_warp + 8*j_end_tile + j_end_own] =
                            lab_cast_f32_f16(v9 + v8);
                    }
                }
            }
        }
    }
}
