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
    for (int k_o = 0; k_o < 2; k_o++) {
        lab_sync();
        const int rows_i_i_i_o_2 = lab_thread / 32;
        const int rows_i_i_i_i_2 = lab_thread / 4 % 8;
        const int rows_k_i_o = lab_thread % 4;
        #pragma unroll
        for (int rows_i_i_o_2 = 0; rows_i_i_o_2 < 2; rows_i_i_o_2++) {
            const lab_f16x8 v1 =
                4*k_o + rows_k_i_o < 5
                && 64*i_o + 32*rows_i_i_o_2 + 8*rows_i_i_i_o_2 + rows_i_i_i_i_2 < n
                ? LAB_LOAD(lab_f16x8, a,
                2560*i_o + 1280*rows_i_i_o_2 + 320*rows_i_i_i_o_2 + 40*rows_i_i_i_i_2 + 32*k_o
                + 8*rows_k_i_o) : lab_f16x8();
            lab_f16x8 v2;
            #pragma unroll
            for (int rows_k_i_i_i = 0; rows_k_i_i_i < 8; rows_k_i_i_i++) {
                v2.at[rows_k_i_i_i] = v1.at[rows_k_i_i_i];
            }
            LAB_STORE_SHARED(lab_f16x8, rows,
                1280*rows_i_i_o_2 + 320*rows_i_i_i_o_2 + 40*rows_i_i_i_i_2 + 8*rows_k_i_o, v2);
        }
        const int columns_j_i_i_o_2 = lab_thread / 32;
        const int columns_j_i_i_i_2 = lab_thread / 4 % 8;
        const int columns_k_i_o = lab_thread % 4;
        #pragma unroll
        for (int columns_j_i_o_2 = 0; columns_j_i_o_2 < 2; columns_j_i_o_2++) {
            const lab_f16x8 v3 =
                64*j_o + 32*columns_j_i_o_2 + 8*columns_j_i_i_o_2 + columns_j_i_i_i_2 < 48
                && 4*k_o + columns_k_i_o < 5
                ? LAB_LOAD(lab_f16x8, b,
                2560*j_o + 1280*columns_j_i_o_2 + 320*columns_j_i_i_o_2 + 40*columns_j_i_i_i_2
                + 32*k_o + 8*columns_k_i_o) : lab_f16x8();
            lab_f16x8 v4;
            #pragma unroll
            for (int columns_k_i_i_i = 0; columns_k_i_i_i < 8; columns_k_i_i_i++) {
                v4.at[columns_k_i_i_i] = v3.at[columns_k_i_i_i];
            }
            LAB_STORE_SHARED(lab_f16x8, columns,
                1280*columns_j_i_o_2 + 320*columns_j_i_i_o_2 + 40*columns_j_i_i_i_2
                + 8*columns_k_i_o, v4);
        }
        lab_sync();
        const int i_i_o_2 = lab_thread / 64;
        const int j_i_o_2 = lab_thread / 32 % 2;
        #pragma unroll
        for (int k_i_o = 0; k_i_o < 4; k_i_o++) {
            lab_u32 v6[4][1];
            #pragma unroll
            for (int j_i_i_o_2 = 0; j_i_i_o_2 < 4; j_i_i_o_2++) {
                lab_tile_b_f16(v6[j_i_i_o_2], columns + (1280*j_i_o_2 + 320*j_i_i_o_2 + 8*k_i_o),
                    1, 40);
            }
            #pragma unroll
            for (int i_i_i_o_2 = 0; i_i_i_o_2 < 4; i_i_i_o_2++) {
                lab_u32 v5[1];
                lab_tile_a_f16(v5, rows + (1280*i_i_o_2 + 320*i_i_i_o_2 + 8*k_i_o), 40);
                #pragma unroll
                for (int j_i_i_o_2 = 0; j_i_i_o_2 < 4; j_i_i_o_2++) {
                    lab_mma_f16(&t[8*i_i_i_o_2 + 2*j_i_i_o_2], v5, v6[j_i_i_o_2]);
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
                        const float v8 =
                            lab_cast_f16_f32(lab_cast_f32_f16(t[8*i_i_i_o_3 + 2*j_i_i_o_3 + v7]));
                        c[3072*i_o + 1536*i_i_o_3 + 384*i_i_i_o_3 + 64*j_o + 48*i_i_i_i_3
                            + 32*j_i_o_3 + 8*j_i_i_o_3 + j_i_i_i_3] =
                            lab_cast_f32_f16(v8
                            + lab_cast_f16_f32(z[64*j_o + 32*j_i_o_3 + 8*j_i_i_o_3 + j_i_i_i_3]));
                    }
                }
            }
        }
    }
}
