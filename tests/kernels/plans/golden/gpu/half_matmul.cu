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
    const lab_i64 i_block = blockIdx.x / 2;
    const lab_i64 j_block = blockIdx.x % 2;
    float t[4];
    #pragma unroll
    for (int v0 = 0; v0 < 4; v0++) {
        t[v0] = 0.0f;
    }
    if (threadIdx.x / 4 < 16) {
        const int rows_i_first_own = threadIdx.x / 4;
        const int rows_k_first_part = threadIdx.x / 2 % 2;
        const int rows_k_first_vector = threadIdx.x % 2;
        lab_copy_async_16(&rows[40*rows_i_first_own + 16*rows_k_first_part
            + 8*rows_k_first_vector],
            &a[640*i_block + 40*rows_i_first_own + 16*rows_k_first_part + 8*rows_k_first_vector],
            16*i_block + rows_i_first_own < n ? 16 : 0);
    }
    const int columns_j_first_warp = threadIdx.x / 32;
    const int columns_j_first_own = threadIdx.x / 4 % 8;
    const int columns_k_first_part = threadIdx.x / 2 % 2;
    const int columns_k_first_vector = threadIdx.x % 2;
    lab_copy_async_16(&columns[320*columns_j_first_warp + 40*columns_j_first_own
        + 16*columns_k_first_part + 8*columns_k_first_vector],
        &b[1280*j_block + 320*columns_j_first_warp + 40*columns_j_first_own
        + 16*columns_k_first_part + 8*columns_k_first_vector],
        32*j_block + 8*columns_j_first_warp + columns_j_first_own < 48 ? 16 : 0);
    lab_copy_commit();
    for (int k_step = 0; k_step < 2; k_step++) {
        lab_copy_wait(0);
        lab_sync();
        if (k_step < 1) {
            if (threadIdx.x / 4 < 16) {
                const int rows_i_own = threadIdx.x / 4;
                const int rows_k_part = threadIdx.x / 2 % 2;
                const int rows_k_vector = threadIdx.x % 2;
                lab_copy_async_16(&rows[640*((k_step + 1) % 2) + 40*rows_i_own + 16*rows_k_part
                    + 8*rows_k_vector],
                    &a[640*i_block + 40*rows_i_own + 32*k_step + 16*rows_k_part + 8*rows_k_vector
                    + 32],
                    16*i_block + rows_i_own < n && 4*k_step + 2*rows_k_part + rows_k_vector < 1
                    ? 16 : 0);
            }
            const int columns_j_warp = threadIdx.x / 32;
            const int columns_j_own = threadIdx.x / 4 % 8;
            const int columns_k_part = threadIdx.x / 2 % 2;
            const int columns_k_vector = threadIdx.x % 2;
            lab_copy_async_16(&columns[1280*((k_step + 1) % 2) + 320*columns_j_warp
                + 40*columns_j_own + 16*columns_k_part + 8*columns_k_vector],
                &b[1280*j_block + 320*columns_j_warp + 40*columns_j_own + 32*k_step
                + 16*columns_k_part + 8*columns_k_vector + 32],
                4*k_step + 2*columns_k_part + columns_k_vector < 1
                && 32*j_block + 8*columns_j_warp + columns_j_own < 48 ? 16 : 0);
        }
        lab_copy_commit();
        const int i_sum_warp = 0;
        const int j_sum_warp = threadIdx.x / 32;
        #pragma unroll
        for (int k_part = 0; k_part < 2; k_part++) {
            lab_u32 v1[4], v2[2];
            lab_tile_a_f16(v1, rows + (640*i_sum_warp + 640*k_step + 16*k_part), 40);
            lab_tile_b_f16(v2, columns + (1280*k_step + 320*j_sum_warp + 16*k_part), 1, 40);
            lab_mma_f16(&t[0], v1, v2);
        }
    }
    const int i_end_warp = 0;
    const int j_end_warp = threadIdx.x / 32;
    #pragma unroll
    for (int v3 = 0; v3 < 4; v3++) {
        const int i_end_own = lab_tile_row(v3);
        const int j_end_own = lab_tile_column(v3);
        if (16*i_block + 16*i_end_warp + i_end_own < n) {
            if (32*j_block + 8*j_end_warp + j_end_own < 48) {
                const float v4 = lab_cast_f16_f32(z[32*j_block + 8*j_end_warp + j_end_own]);
                c[768*i_block + 768*i_end_warp + 48*i_end_own + 32*j_block + 8*j_end_warp
                    + j_end_own] = lab_cast_f32_f16(lab_cast_f16_f32(lab_cast_f32_f16(t[v3])) + v4);
            }
        }
    }
}
