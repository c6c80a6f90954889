// kernel half_matmul(a: f16[n, 40], b: f16[48, 40], z: f16[48]) -> (c: f16[n, 48])
//   c[i < n, j < 48] = (sum k < 40: fused(a[i, k] * b[j, k])) + z[j]
extern "C" __global__ void __launch_bounds__(128) kernel_half_matmul(
    const lab_f16 *__restrict__ a,
    const lab_f16 *__restrict__ b,
    const lab_f16 *__restrict__ z,
    lab_f16 *__restrict__ c,
    const lab_i64 n
) {
    __shared__ __align__(16) lab_f16 rows[1280];
    __shared__ __align__(16) lab_f16 columns[2560];
    const lab_i64 i_o = blockIdx.x / 2;
    const lab_i64 j_o = blockIdx.x % 2;
    float t[4];
    #pragma unroll
    for (int v0 = 0; v0 < 4; v0++) {
        t[v0] = 0.0f;
    }
    if (threadIdx.x / 4 < 16) {
        const int rows_i_i_i_i_2_2 = threadIdx.x / 4;
        const int rows_k_i_o_2 = threadIdx.x / 2 % 2;
        const int rows_k_i_i_o_2 = threadIdx.x % 2;
        lab_copy_async_16(&rows[40*rows_i_i_i_i_2_2 + 16*rows_k_i_o_2 + 8*rows_k_i_i_o_2],
            &a[640*i_o + 40*rows_i_i_i_i_2_2 + 16*rows_k_i_o_2 + 8*rows_k_i_i_o_2],
            16*i_o + rows_i_i_i_i_2_2 < n ? 16 : 0);
    }
    const int columns_j_i_o_2_2 = threadIdx.x / 32;
    const int columns_j_i_i_i_2_2 = threadIdx.x / 4 % 8;
    const int columns_k_i_o_2 = threadIdx.x / 2 % 2;
    const int columns_k_i_i_o_2 = threadIdx.x % 2;
    lab_copy_async_16(&columns[320*columns_j_i_o_2_2 + 40*columns_j_i_i_i_2_2 + 16*columns_k_i_o_2
        + 8*columns_k_i_i_o_2],
        &b[1280*j_o + 320*columns_j_i_o_2_2 + 40*columns_j_i_i_i_2_2 + 16*columns_k_i_o_2
        + 8*columns_k_i_i_o_2], 32*j_o + 8*columns_j_i_o_2_2 + columns_j_i_i_i_2_2 < 48 ? 16 : 0);
    lab_copy_commit();
    for (int k_o = 0; k_o < 2; k_o++) {
        lab_copy_wait(0);
        lab_sync();
        if (k_o < 1) {
            if (threadIdx.x / 4 < 16) {
                const int rows_i_i_i_i_2 = threadIdx.x / 4;
                const int rows_k_i_o = threadIdx.x / 2 % 2;
                const int rows_k_i_i_o = threadIdx.x % 2;
                lab_copy_async_16(&rows[640*((k_o + 1) % 2) + 40*rows_i_i_i_i_2 + 16*rows_k_i_o
                    + 8*rows_k_i_i_o],
                    &a[640*i_o + 40*rows_i_i_i_i_2 + 32*k_o + 16*rows_k_i_o + 8*rows_k_i_i_o + 32],
                    16*i_o + rows_i_i_i_i_2 < n && 4*k_o + 2*rows_k_i_o + rows_k_i_i_o < 1 ? 16
                    : 0);
            }
            const int columns_j_i_o_2 = threadIdx.x / 32;
            const int columns_j_i_i_i_2 = threadIdx.x / 4 % 8;
            const int columns_k_i_o = threadIdx.x / 2 % 2;
            const int columns_k_i_i_o = threadIdx.x % 2;
            lab_copy_async_16(&columns[1280*((k_o + 1) % 2) + 320*columns_j_i_o_2
                + 40*columns_j_i_i_i_2 + 16*columns_k_i_o + 8*columns_k_i_i_o],
                &b[1280*j_o + 320*columns_j_i_o_2 + 40*columns_j_i_i_i_2 + 32*k_o
                + 16*columns_k_i_o + 8*columns_k_i_i_o + 32],
                32*j_o + 8*columns_j_i_o_2 + columns_j_i_i_i_2 < 48
                && 4*k_o + 2*columns_k_i_o + columns_k_i_i_o < 1 ? 16 : 0);
        }
        lab_copy_commit();
        const int i_i_o_2 = 0;
        const int j_i_o_2 = threadIdx.x / 32;
        #pragma unroll
        for (int k_i_o = 0; k_i_o < 2; k_i_o++) {
            lab_u32 v1[4], v2[2];
            lab_tile_a_f16(v1, rows + (640*i_i_o_2 + 640*k_o + 16*k_i_o), 40);
            lab_tile_b_f16(v2, columns + (1280*k_o + 320*j_i_o_2 + 16*k_i_o), 1, 40);
            lab_mma_f16(&t[0], v1, v2);
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
                const float v4 = lab_cast_f16_f32(z[32*j_o + 8*j_i_o_3 + j_i_i_i_3]);
                c[768*i_i_o_3 + 768*i_o + 48*i_i_i_i_3 + 32*j_o + 8*j_i_o_3 + j_i_i_i_3] =
                    lab_cast_f32_f16(lab_cast_f16_f32(lab_cast_f32_f16(t[v3])) + v4);
            }
        }
    }
}
