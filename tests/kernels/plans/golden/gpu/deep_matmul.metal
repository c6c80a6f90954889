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
    const lab_i64 i_o = lab_block;
    const lab_i64 j_o = 0;
    float t[32];
    #pragma unroll
    for (int i_i_i_o = 0; i_i_i_o < 4; i_i_i_o++) {
        #pragma unroll
        for (int j_i_i_o = 0; j_i_i_o < 4; j_i_i_o++) {
            #pragma unroll
            for (int v0 = 0; v0 < 2; v0++) {
                t[8*i_i_i_o + 2*j_i_i_o + v0] = 0.0f;
            }
        }
    }
    for (int k_o = 0; k_o < 5; k_o++) {
        lab_sync();
        const int rows_i_i_i_o_2 = lab_thread / 32;
        const int rows_i_i_i_i_2 = lab_thread / 4 % 8;
        const int rows_k_i_o = lab_thread % 4;
        #pragma unroll
        for (int rows_i_i_o_2 = 0; rows_i_i_o_2 < 2; rows_i_i_o_2++) {
            const lab_bf16x8 v1 =
                4*k_o + rows_k_i_o < 17
                && 64*i_o + 32*rows_i_i_o_2 + 8*rows_i_i_i_o_2 + rows_i_i_i_i_2 < n
                ? LAB_LOAD(lab_bf16x8, a,
                8704*i_o + 4352*rows_i_i_o_2 + 1088*rows_i_i_i_o_2 + 136*rows_i_i_i_i_2 + 32*k_o
                + 8*rows_k_i_o) : lab_bf16x8();
            lab_bf16x8 v2;
            #pragma unroll
            for (int rows_k_i_i_i = 0; rows_k_i_i_i < 8; rows_k_i_i_i++) {
                v2.at[rows_k_i_i_i] = v1.at[rows_k_i_i_i];
            }
            LAB_STORE_SHARED(lab_bf16x8, rows,
                1280*rows_i_i_o_2 + 320*rows_i_i_i_o_2 + 40*rows_i_i_i_i_2 + 8*rows_k_i_o, v2);
        }
        const int columns_k_i_o_i = lab_thread / 64;
        const int columns_k_i_i = lab_thread / 8 % 8;
        const int columns_j_i_o_2 = lab_thread / 4 % 2;
        const int columns_j_i_i_o_2 = lab_thread % 4;
        #pragma unroll
        for (int columns_k_i_o_o = 0; columns_k_i_o_o < 2; columns_k_i_o_o++) {
            const lab_bf16x8 v3 =
                8*j_o + 4*columns_j_i_o_2 + columns_j_i_i_o_2 < 6
                && 32*k_o + 16*columns_k_i_o_o + 8*columns_k_i_o_i + columns_k_i_i < 136
                ? LAB_LOAD(lab_bf16x8, b,
                1536*k_o + 768*columns_k_i_o_o + 384*columns_k_i_o_i + 64*j_o + 48*columns_k_i_i
                + 32*columns_j_i_o_2 + 8*columns_j_i_i_o_2) : lab_bf16x8();
            lab_bf16x8 v4;
            #pragma unroll
            for (int columns_j_i_i_i_2_i = 0; columns_j_i_i_i_2_i < 8; columns_j_i_i_i_2_i++) {
                v4.at[columns_j_i_i_i_2_i] = v3.at[columns_j_i_i_i_2_i];
            }
            LAB_STORE_SHARED(lab_bf16x8, columns,
                1152*columns_k_i_o_o + 576*columns_k_i_o_i + 72*columns_k_i_i + 32*columns_j_i_o_2
                + 8*columns_j_i_i_o_2, v4);
        }
        lab_sync();
        const int i_i_o_2 = lab_thread / 64;
        const int j_i_o_2 = lab_thread / 32 % 2;
        #pragma unroll
        for (int k_i_o = 0; k_i_o < 4; k_i_o++) {
            lab_u32 v6[4][1];
            #pragma unroll
            for (int j_i_i_o_2 = 0; j_i_i_o_2 < 4; j_i_i_o_2++) {
                lab_tile_b_bf16(v6[j_i_i_o_2], columns + (576*k_i_o + 32*j_i_o_2 + 8*j_i_i_o_2),
                    72, 1);
            }
            #pragma unroll
            for (int i_i_i_o_2 = 0; i_i_i_o_2 < 4; i_i_i_o_2++) {
                lab_u32 v5[1];
                lab_tile_a_bf16(v5, rows + (1280*i_i_o_2 + 320*i_i_i_o_2 + 8*k_i_o), 40);
                #pragma unroll
                for (int j_i_i_o_2 = 0; j_i_i_o_2 < 4; j_i_i_o_2++) {
                    lab_mma_bf16(&t[8*i_i_i_o_2 + 2*j_i_i_o_2], v5, v6[j_i_i_o_2]);
                }
            }
        }
    }
    const int i_i_o_3 = lab_thread / 64;
    const int j_i_o_3 = lab_thread / 32 % 2;
    #pragma unroll
    for (int i_i_i_o_3 = 0; i_i_i_o_3 < 4; i_i_i_o_3++) {
        #pragma unroll
        for (int j_i_i_o_3 = 0; j_i_i_o_3 < 4; j_i_i_o_3++) {
            #pragma unroll
            for (int v7 = 0; v7 < 2; v7++) {
                const int i_i_i_i_3 = lab_tile_row(v7);
                const int j_i_i_i_3 = lab_tile_column(v7);
                if (64*i_o + 32*i_i_o_3 + 8*i_i_i_o_3 + i_i_i_i_3 < n) {
                    if (64*j_o + 32*j_i_o_3 + 8*j_i_i_o_3 + j_i_i_i_3 < 48) {
                        c[3072*i_o + 1536*i_i_o_3 + 384*i_i_i_o_3 + 64*j_o + 48*i_i_i_i_3
                            + 32*j_i_o_3 + 8*j_i_i_o_3 + j_i_i_i_3] =
                            t[8*i_i_i_o_3 + 2*j_i_i_o_3 + v7];
                    }
                }
            }
        }
    }
}
