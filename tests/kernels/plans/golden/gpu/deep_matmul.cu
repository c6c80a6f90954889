// kernel deep_matmul(a: bf16[n, 136], b: bf16[136, 48]) -> (c: f32[n, 48])
//   c[i < n, j < 48] = sum k < 136: fused(f32(a[i, k]) * f32(b[k, j]))
extern "C" __global__ void __launch_bounds__(128) kernel_deep_matmul(
    const lab_bf16 *__restrict__ a,
    const lab_bf16 *__restrict__ b,
    float *__restrict__ c,
    const lab_i64 n
) {
    __shared__ __align__(16) lab_bf16 rows[1920];
    __shared__ __align__(16) lab_bf16 columns[3840];
    const lab_i64 i_o = blockIdx.x / 2;
    const lab_i64 j_o = blockIdx.x % 2;
    float t[4];
    #pragma unroll
    for (int v0 = 0; v0 < 4; v0++) {
        t[v0] = 0.0f;
    }
    for (int k_o_a = 0; k_o_a < 2; k_o_a++) {
        if (threadIdx.x / 4 < 16) {
            const int rows_i_i_i_i_2_2 = threadIdx.x / 4;
            const int rows_k_i_o_2 = threadIdx.x / 2 % 2;
            const int rows_k_i_i_o_2 = threadIdx.x % 2;
            lab_copy_async_16(&rows[640*k_o_a + 40*rows_i_i_i_i_2_2 + 16*rows_k_i_o_2
                + 8*rows_k_i_i_o_2],
                &a[2176*i_o + 136*rows_i_i_i_i_2_2 + 32*k_o_a + 16*rows_k_i_o_2
                + 8*rows_k_i_i_o_2], 16*i_o + rows_i_i_i_i_2_2 < n ? 16 : 0);
        }
        const int columns_k_i_o_2 = threadIdx.x / 64;
        const int columns_k_i_i_2 = threadIdx.x / 4 % 16;
        const int columns_j_i_o_2_2 = threadIdx.x % 4;
        lab_copy_async_16(&columns[1280*k_o_a + 640*columns_k_i_o_2 + 40*columns_k_i_i_2
            + 8*columns_j_i_o_2_2],
            &b[1536*k_o_a + 768*columns_k_i_o_2 + 48*columns_k_i_i_2 + 32*j_o
            + 8*columns_j_i_o_2_2], 4*j_o + columns_j_i_o_2_2 < 6 ? 16 : 0);
        lab_copy_commit();
    }
    for (int k_o = 0; k_o < 5; k_o++) {
        lab_copy_wait(1);
        lab_sync();
        if (k_o < 3) {
            if (threadIdx.x / 4 < 16) {
                const int rows_i_i_i_i_2 = threadIdx.x / 4;
                const int rows_k_i_o = threadIdx.x / 2 % 2;
                const int rows_k_i_i_o = threadIdx.x % 2;
                lab_copy_async_16(&rows[640*((k_o + 2) % 3) + 40*rows_i_i_i_i_2 + 16*rows_k_i_o
                    + 8*rows_k_i_i_o],
                    &a[2176*i_o + 136*rows_i_i_i_i_2 + 32*k_o + 16*rows_k_i_o + 8*rows_k_i_i_o
                    + 64], 16*i_o + rows_i_i_i_i_2 < n && 4*k_o + 2*rows_k_i_o + rows_k_i_i_o < 9
                    ? 16 : 0);
            }
            const int columns_k_i_o = threadIdx.x / 64;
            const int columns_k_i_i = threadIdx.x / 4 % 16;
            const int columns_j_i_o_2 = threadIdx.x % 4;
            lab_copy_async_16(&columns[1280*((k_o + 2) % 3) + 640*columns_k_i_o + 40*columns_k_i_i
                + 8*columns_j_i_o_2],
                &b[1536*k_o + 768*columns_k_i_o + 48*columns_k_i_i + 32*j_o + 8*columns_j_i_o_2
                + 3072],
                4*j_o + columns_j_i_o_2 < 6 && 32*k_o + 16*columns_k_i_o + columns_k_i_i < 72 ? 16
                : 0);
        }
        lab_copy_commit();
        const int i_i_o_2 = 0;
        const int j_i_o_2 = threadIdx.x / 32;
        #pragma unroll
        for (int k_i_o = 0; k_i_o < 2; k_i_o++) {
            lab_u32 v1[4], v2[2];
            lab_tile_a_bf16(v1, rows + (640*i_i_o_2 + 640*(k_o % 3) + 16*k_i_o), 40);
            lab_tile_b_bf16(v2, columns + (1280*(k_o % 3) + 640*k_i_o + 8*j_i_o_2), 40, 1);
            lab_mma_bf16(&t[0], v1, v2);
        }
    }
    const int i_i_o_3 = 0;
    const int j_i_o_3 = threadIdx.x / 32;
    #pragma unroll
    for (int v3 = 0; v3 < 4; v3++) {
        const int i_i_i_i_3 = lab_tile_row(v3);
        const int j_i_i_i_3 = lab_tile_column(v3);
        if (16*i_i_o_3 + 16*i_o + i_i_i_i_3 < n) {
            if (32*j_o + 8*j_i_o_3 + j_i_i_i_3 < 48) {
                c[768*i_i_o_3 + 768*i_o + 48*i_i_i_i_3 + 32*j_o + 8*j_i_o_3 + j_i_i_i_3] = t[v3];
            }
        }
    }
}
