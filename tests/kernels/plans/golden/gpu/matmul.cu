// kernel matmul(a: f32[n, 40], b: f32[40, 48]) -> (c: f32[n, 48])
//   c[i < n, j < 48] = (sum k < 40: fused(a[i, k] * b[k, j])) * 2.0
extern "C" __global__ void __launch_bounds__(256) kernel_matmul(
    const float *__restrict__ a,
    const float *__restrict__ b,
    float *__restrict__ c,
    const lab_i64 n
) {
    __shared__ __align__(16) float rows[1024];
    __shared__ __align__(16) float columns[1024];
    const lab_i64 i_o = blockIdx.x / 2;
    const lab_i64 j_o = blockIdx.x % 2;
    float t[4];
    for (int i_i_i = 0; i_i_i < 2; i_i_i++) {
        for (int j_i_i_i = 0; j_i_i_i < 2; j_i_i_i++) {
            t[2*i_i_i + j_i_i_i] = 0.0f;
        }
    }
    for (int k_o = 0; k_o < 2; k_o++) {
        lab_sync();
        const int rows_i_i_o_2 = threadIdx.x / 16;
        const int rows_i_i_i_2 = threadIdx.x / 8 % 2;
        const int rows_k_i_o = threadIdx.x % 8;
        const lab_f32x4 v0 =
            32*i_o + 2*rows_i_i_o_2 + rows_i_i_i_2 < n && 8*k_o + rows_k_i_o < 10
            ? LAB_LOAD(lab_f32x4, a,
            1280*i_o + 80*rows_i_i_o_2 + 40*rows_i_i_i_2 + 32*k_o + 4*rows_k_i_o) : lab_f32x4();
        #pragma unroll
        for (int rows_k_i_i = 0; rows_k_i_i < 4; rows_k_i_i++) {
            rows[128*rows_k_i_o + 32*rows_k_i_i + 2*rows_i_i_o_2 + rows_i_i_i_2] =
                v0.at[rows_k_i_i];
        }
        const int columns_k_i_i = threadIdx.x / 16;
        const int columns_j_i_i_o_2 = threadIdx.x % 16;
        #pragma unroll
        for (int columns_k_i_o = 0; columns_k_i_o < 2; columns_k_i_o++) {
            const lab_f32x2 v1 =
                16*j_o + columns_j_i_i_o_2 < 24 && 32*k_o + 16*columns_k_i_o + columns_k_i_i < 40
                ? LAB_LOAD(lab_f32x2, b,
                1536*k_o + 768*columns_k_i_o + 48*columns_k_i_i + 32*j_o + 2*columns_j_i_i_o_2)
                : lab_f32x2();
            lab_f32x2 v2;
            #pragma unroll
            for (int columns_j_i_i_i_2_i = 0; columns_j_i_i_i_2_i < 2; columns_j_i_i_i_2_i++) {
                v2.at[columns_j_i_i_i_2_i] = v1.at[columns_j_i_i_i_2_i];
            }
            LAB_STORE_SHARED(lab_f32x2, columns,
                512*columns_k_i_o + 32*columns_k_i_i + 2*columns_j_i_i_o_2, v2);
        }
        lab_sync();
        const int i_i_o_2 = threadIdx.x / 16;
        const int j_i_i_o_2 = threadIdx.x % 16;
        #pragma unroll
        for (int k_i = 0; k_i < 32; k_i++) {
            #pragma unroll
            for (int i_i_i_2 = 0; i_i_i_2 < 2; i_i_i_2++) {
                #pragma unroll
                for (int j_i_i_i_2 = 0; j_i_i_i_2 < 2; j_i_i_i_2++) {
                    const float v3 = columns[32*k_i + 2*j_i_i_o_2 + j_i_i_i_2];
                    t[2*i_i_i_2 + j_i_i_i_2] =
                        lab_fma_f32(rows[32*k_i + 2*i_i_o_2 + i_i_i_2], v3,
                        t[2*i_i_i_2 + j_i_i_i_2]);
                }
            }
        }
    }
    const int i_i_o_3 = threadIdx.x / 16;
    const int j_i_i_o_3 = threadIdx.x % 16;
    #pragma unroll
    for (int i_i_i_3 = 0; i_i_i_3 < 2; i_i_i_3++) {
        #pragma unroll
        for (int j_i_i_i_3 = 0; j_i_i_i_3 < 2; j_i_i_i_3++) {
            if (32*i_o + 2*i_i_o_3 + i_i_i_3 < n) {
                if (32*j_o + 2*j_i_i_o_3 + j_i_i_i_3 < 48) {
                    c[1536*i_o + 96*i_i_o_3 + 48*i_i_i_3 + 32*j_o + 2*j_i_i_o_3 + j_i_i_i_3] =
                        t[2*i_i_i_3 + j_i_i_i_3] * 2.0f;
                }
            }
        }
    }
}
