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
    const lab_i64 i_block = blockIdx.x / 2;
    const lab_i64 j_block = blockIdx.x % 2;
    float t[4];
    #pragma unroll
    for (int v0 = 0; v0 < 4; v0++) {
        t[v0] = 0.0f;
    }
    for (int k_first_step = 0; k_first_step < 2; k_first_step++) {
        if (threadIdx.x / 4 < 16) {
            const int rows_i_first_own = threadIdx.x / 4;
            const int rows_k_first_part = threadIdx.x / 2 % 2;
            const int rows_k_first_vector = threadIdx.x % 2;
            lab_copy_async_16(&rows[640*k_first_step + 40*rows_i_first_own + 16*rows_k_first_part
                + 8*rows_k_first_vector],
                &a[2176*i_block + 136*rows_i_first_own + 32*k_first_step + 16*rows_k_first_part
                + 8*rows_k_first_vector], 16*i_block + rows_i_first_own < n ? 16 : 0);
        }
        const int columns_k_first_part = threadIdx.x / 64;
        const int columns_k_first_own = threadIdx.x / 4 % 16;
        const int columns_j_first_warp = threadIdx.x % 4;
        lab_copy_async_16(&columns[1280*k_first_step + 640*columns_k_first_part
            + 40*columns_k_first_own + 8*columns_j_first_warp],
            &b[1536*k_first_step + 768*columns_k_first_part + 48*columns_k_first_own + 32*j_block
            + 8*columns_j_first_warp], 4*j_block + columns_j_first_warp < 6 ? 16 : 0);
        lab_copy_commit();
    }
    for (int k_step = 0; k_step < 5; k_step++) {
        lab_copy_wait(1);
        lab_sync();
        if (k_step < 3) {
            if (threadIdx.x / 4 < 16) {
                const int rows_i_own = threadIdx.x / 4;
                const int rows_k_part = threadIdx.x / 2 % 2;
                const int rows_k_vector = threadIdx.x % 2;
                lab_copy_async_16(&rows[640*((k_step + 2) % 3) + 40*rows_i_own + 16*rows_k_part
                    + 8*rows_k_vector],
                    &a[2176*i_block + 136*rows_i_own + 32*k_step + 16*rows_k_part + 8*rows_k_vector
                    + 64],
                    16*i_block + rows_i_own < n && 4*k_step + 2*rows_k_part + rows_k_vector < 9
                    ? 16 : 0);
            }
            const int columns_k_part = threadIdx.x / 64;
            const int columns_k_own = threadIdx.x / 4 % 16;
            const int columns_j_warp = threadIdx.x % 4;
            lab_copy_async_16(&columns[1280*((k_step + 2) % 3) + 640*columns_k_part
                + 40*columns_k_own + 8*columns_j_warp],
                &b[1536*k_step + 768*columns_k_part + 48*columns_k_own + 32*j_block
                + 8*columns_j_warp + 3072],
                4*j_block + columns_j_warp < 6
                && 32*k_step + 16*columns_k_part + columns_k_own < 72 ? 16 : 0);
        }
        lab_copy_commit();
        const int i_sum_warp = 0;
        const int j_sum_warp = threadIdx.x / 32;
        #pragma unroll
        for (int k_part = 0; k_part < 2; k_part++) {
            lab_u32 v1[4], v2[2];
            lab_tile_a_bf16(v1, rows + (640*i_sum_warp + 640*(k_step % 3) + 16*k_part), 40);
            lab_tile_b_bf16(v2, columns + (1280*(k_step % 3) + 640*k_part + 8*j_sum_warp), 40, 1);
            lab_mma_bf16(&t[0], v1, v2);
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
                c[768*i_block + 768*i_end_warp + 48*i_end_own + 32*j_block + 8*j_end_warp
                    + j_end_own] = t[v3];
            }
        }
    }
}
