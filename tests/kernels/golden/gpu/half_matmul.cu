// kernel half_matmul(a: f16[n, 40], b: f16[48, 40], z: f16[48]) -> (c: f16[n, 48])
//   c[i < n, j < 48] = (sum k < 40: a[i, k] * b[j, k]) + z[j]
extern "C" __global__ void __launch_bounds__(128) kernel_half_matmul(
    const lab_f16 *__restrict__ a,
    const lab_f16 *__restrict__ b,
    const lab_f16 *__restrict__ z,
    lab_f16 *__restrict__ c,
    const lab_i64 n
) {
    __shared__ __align__(16) lab_f16 rows[512];
    __shared__ __align__(16) lab_f16 columns[1024];
    const lab_i64 i_o = blockIdx.x / 2;
    const lab_i64 j_o = blockIdx.x % 2;
    float t[4];
    #pragma unroll
    for (int v0 = 0; v0 < 4; v0++) {
        t[v0] = 0.0f;
    }
    for (int k_o = 0; k_o < 2; k_o++) {
        lab_sync();
        if (threadIdx.x / 32 < 2) {
            const int rows_k_i_o = threadIdx.x / 32;
            const int rows_i_i_i_i_2 = threadIdx.x / 2 % 16;
            const int rows_k_i_i_o = threadIdx.x % 2;
            lab_f16x8 v1;
            #pragma unroll
            for (int rows_k_i_i_i = 0; rows_k_i_i_i < 8; rows_k_i_i_i++) {
                v1.at[rows_k_i_i_i] =
                    16*i_o + rows_i_i_i_i_2 < n
                    && 32*k_o + 16*rows_k_i_o + 8*rows_k_i_i_o + rows_k_i_i_i < 40
                    ? a[640*i_o + 40*rows_i_i_i_i_2 + 32*k_o + 16*rows_k_i_o + 8*rows_k_i_i_o
                    + rows_k_i_i_i] : lab_f16(0);
            }
            LAB_STORE_SHARED(lab_f16x8, rows, 256*rows_k_i_o + 16*rows_i_i_i_i_2 + 8*rows_k_i_i_o,
                v1);
        }
        const int columns_k_i_o = threadIdx.x / 64;
        const int columns_j_i_o_2 = threadIdx.x / 16 % 4;
        const int columns_j_i_i_i_2 = threadIdx.x / 2 % 8;
        const int columns_k_i_i_o = threadIdx.x % 2;
        lab_f16x8 v2;
        #pragma unroll
        for (int columns_k_i_i_i = 0; columns_k_i_i_i < 8; columns_k_i_i_i++) {
            v2.at[columns_k_i_i_i] =
                32*j_o + 8*columns_j_i_o_2 + columns_j_i_i_i_2 < 48
                && 32*k_o + 16*columns_k_i_o + 8*columns_k_i_i_o + columns_k_i_i_i < 40
                ? b[1280*j_o + 320*columns_j_i_o_2 + 40*columns_j_i_i_i_2 + 32*k_o
                + 16*columns_k_i_o + 8*columns_k_i_i_o + columns_k_i_i_i] : lab_f16(0);
        }
        LAB_STORE_SHARED(lab_f16x8, columns,
            512*columns_k_i_o + 128*columns_j_i_o_2 + 16*columns_j_i_i_i_2 + 8*columns_k_i_i_o, v2);
        lab_sync();
        const int i_i_o_2 = 0;
        const int j_i_o_2 = threadIdx.x / 32;
        #pragma unroll
        for (int k_i_o = 0; k_i_o < 2; k_i_o++) {
            lab_u32 v3[4], v4[2];
            lab_tile_a_f16(v3, rows + (256*i_i_o_2 + 256*k_i_o), 16);
            lab_tile_b_f16(v4, columns + (512*k_i_o + 128*j_i_o_2), 1, 16);
            lab_mma_f16(&t[0], v3, v4);
        }
    }
    const int i_i_o_3 = 0;
    const int j_i_o_3 = threadIdx.x / 32;
    #pragma unroll
    for (int v5 = 0; v5 < 4; v5++) {
        const int i_i_i_i_3 = lab_tile_row(v5);
        const int j_i_i_i_3 = lab_tile_column(v5);
        if (16*i_i_o_3 + 16*i_o + i_i_i_i_3 < n) {
            if (32*j_o + 8*j_i_o_3 + j_i_i_i_3 < 48) {
                const float v6 = lab_cast_f16_f32(z[32*j_o + 8*j_i_o_3 + j_i_i_i_3]);
                c[768*i_i_o_3 + 768*i_o + 48*i_i_i_i_3 + 32*j_o + 8*j_i_o_3 + j_i_i_i_3] =
                    lab_cast_f32_f16(lab_cast_f16_f32(lab_cast_f32_f16(t[v5])) + v6);
            }
        }
    }
}
