// kernel deep_matmul(a: bf16[n, 136], b: bf16[136, 48]) -> (c: f32[n, 48])
//   c[i < n, j < 48] = sum k < 136: fused(f32(a[i, k]) * f32(b[k, j]))
kernel void kernel_deep_matmul(
    device const lab_bf16 *a [[buffer(0)]],
    device const lab_bf16 *b [[buffer(1)]],
    device float *c [[buffer(2)]],
    constant lab_i64 &n [[buffer(3)]],
    uint lab_block [[threadgroup_position_in_grid]],
    uint lab_thread [[thread_position_in_threadgroup]]
) {
    threadgroup __attribute__((aligned(16))) lab_bf16 rows[2560];
    threadgroup __attribute__((aligned(16))) lab_bf16 columns[2304];
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
    for (int k_step = 0; k_step < 5; k_step++) {
        lab_sync();
        const int rows_i_tile = lab_thread / 32;
        const int rows_i_own = lab_thread / 4 % 8;
        const int rows_k_part = lab_thread % 4;
        #pragma unroll
        for (int rows_i_warp = 0; rows_i_warp < 2; rows_i_warp++) {
            const lab_bf16x8 v1 =
                4*k_step + rows_k_part < 17
                && 64*i_block + 32*rows_i_warp + 8*rows_i_tile + rows_i_own < n
                ? LAB_LOAD(lab_bf16x8, a,
                8704*i_block + 4352*rows_i_warp + 1088*rows_i_tile + 136*rows_i_own + 32*k_step
                + 8*rows_k_part) : lab_bf16x8();
            lab_bf16x8 v2;
            #pragma unroll
            for (int rows_k_lane = 0; rows_k_lane < 8; rows_k_lane++) {
                v2.at[rows_k_lane] = v1.at[rows_k_lane];
            }
            LAB_STORE_SHARED(lab_bf16x8, rows,
                1280*rows_i_warp + 320*rows_i_tile + 40*rows_i_own + 8*rows_k_part, v2);
        }
        const int columns_k_each = lab_thread / 64;
        const int columns_k_own = lab_thread / 8 % 8;
        const int columns_j_warp = lab_thread / 4 % 2;
        const int columns_j_tile = lab_thread % 4;
        #pragma unroll
        for (int columns_k_batch = 0; columns_k_batch < 2; columns_k_batch++) {
            const lab_bf16x8 v3 =
                32*k_step + 16*columns_k_batch + 8*columns_k_each + columns_k_own < 136
                && 8*j_block + 4*columns_j_warp + columns_j_tile < 6
                ? LAB_LOAD(lab_bf16x8, b,
                1536*k_step + 768*columns_k_batch + 384*columns_k_each + 64*j_block
                + 48*columns_k_own + 32*columns_j_warp + 8*columns_j_tile) : lab_bf16x8();
            lab_bf16x8 v4;
            #pragma unroll
            for (int columns_j_lane = 0; columns_j_lane < 8; columns_j_lane++) {
                v4.at[columns_j_lane] = v3.at[columns_j_lane];
            }
            LAB_STORE_SHARED(lab_bf16x8, columns,
                1152*columns_k_batch + 576*columns_k_each + 72*columns_k_own + 32*columns_j_warp
                + 8*columns_j_tile, v4);
        }
        lab_sync();
        const int i_sum_warp = lab_thread / 64;
        const int j_sum_warp = lab_thread / 32 % 2;
        #pragma unroll
        for (int k_part = 0; k_part < 4; k_part++) {
            lab_u32 v6[4][1];
            #pragma unroll
            for (int j_sum_tile = 0; j_sum_tile < 4; j_sum_tile++) {
                lab_tile_b_bf16(v6[j_sum_tile],
                    columns + (576*k_part + 32*j_sum_warp + 8*j_sum_tile), 72, 1);
            }
            #pragma unroll
            for (int i_sum_tile = 0; i_sum_tile < 4; i_sum_tile++) {
                lab_u32 v5[1];
                lab_tile_a_bf16(v5, rows + (1280*i_sum_warp + 320*i_sum_tile + 8*k_part), 40);
                #pragma unroll
                for (int j_sum_tile = 0; j_sum_tile < 4; j_sum_tile++) {
                    lab_mma_bf16(&t[8*i_sum_tile + 2*j_sum_tile], v5, v6[j_sum_tile]);
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
                        c[3072*i_block + 1536*i_end_warp + 384*i_end_tile + 64*j_block
                            + 48*i_end_own + 32*j_end_warp + 8*j_end_tile + j_end_own] =
                            t[8*i_end_tile + 2*j_end_tile + v7];
                    }
                }
            }
        }
    }
}
