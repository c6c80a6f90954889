// kernel matmul(a: f32[n, 40], b: f32[40, 48]) -> (c: f32[n, 48])
//   c[i < n, j < 48] = (sum k < 40: fused(a[i, k] * b[k, j])) * 2.0
kernel void kernel_matmul(
    device const float *a [[buffer(0)]],
    device const float *b [[buffer(1)]],
    device float *c [[buffer(2)]],
    constant lab_i64 &n [[buffer(3)]],
    uint lab_block [[threadgroup_position_in_grid]],
    uint lab_thread [[thread_position_in_threadgroup]]
) {
    threadgroup __attribute__((aligned(16))) float rows[1024];
    threadgroup __attribute__((aligned(16))) float columns[1024];
    const lab_i64 i_o = lab_block;
    const lab_i64 j_o = 0;
    float t[16];
    for (int i_i_i = 0; i_i_i < 4; i_i_i++) {
        for (int j_i_i_i = 0; j_i_i_i < 4; j_i_i_i++) {
            t[4*i_i_i + j_i_i_i] = 0.0f;
        }
    }
    for (int k_o = 0; k_o < 3; k_o++) {
        lab_sync();
        const int rows_i_i_o_2 = lab_thread / 16;
        const int rows_i_i_i_2 = lab_thread / 4 % 4;
        const int rows_k_i_o = lab_thread % 4;
        const lab_f32x4 v0 =
            4*k_o + rows_k_i_o < 10 && 64*i_o + 4*rows_i_i_o_2 + rows_i_i_i_2 < n
            ? LAB_LOAD(lab_f32x4, a,
            2560*i_o + 160*rows_i_i_o_2 + 40*rows_i_i_i_2 + 16*k_o + 4*rows_k_i_o) : lab_f32x4();
        #pragma unroll
        for (int rows_k_i_i = 0; rows_k_i_i < 4; rows_k_i_i++) {
            rows[256*rows_k_i_o + 64*rows_k_i_i + 4*rows_i_i_o_2 + rows_i_i_i_2] =
                v0.at[rows_k_i_i];
        }
        const int columns_k_i = lab_thread / 16;
        const int columns_j_i_i_o_2 = lab_thread % 16;
        const lab_f32x4 v1 =
            16*j_o + columns_j_i_i_o_2 < 12 && 16*k_o + columns_k_i < 40
            ? LAB_LOAD(lab_f32x4, b, 768*k_o + 64*j_o + 48*columns_k_i + 4*columns_j_i_i_o_2)
            : lab_f32x4();
        lab_f32x4 v2;
        #pragma unroll
        for (int columns_j_i_i_i_2_i = 0; columns_j_i_i_i_2_i < 4; columns_j_i_i_i_2_i++) {
            v2.at[columns_j_i_i_i_2_i] = v1.at[columns_j_i_i_i_2_i];
        }
        LAB_STORE_SHARED(lab_f32x4, columns, 64*columns_k_i + 4*columns_j_i_i_o_2, v2);
        lab_sync();
        const int i_i_o_2 = lab_thread / 16;
        const int j_i_i_o_2 = lab_thread % 16;
        #pragma unroll
        for (int k_i = 0; k_i < 16; k_i++) {
            #pragma unroll
            for (int i_i_i_2 = 0; i_i_i_2 < 4; i_i_i_2++) {
                #pragma unroll
                for (int j_i_i_i_2 = 0; j_i_i_i_2 < 4; j_i_i_i_2++) {
                    const float v3 = columns[64*k_i + 4*j_i_i_o_2 + j_i_i_i_2];
                    t[4*i_i_i_2 + j_i_i_i_2] =
                        lab_fma_f32(rows[64*k_i + 4*i_i_o_2 + i_i_i_2], v3,
                        t[4*i_i_i_2 + j_i_i_i_2]);
                }
            }
        }
    }
    const int i_i_o_3 = lab_thread / 16;
    const int j_i_i_o_3 = lab_thread % 16;
    #pragma unroll
    for (int i_i_i_3 = 0; i_i_i_3 < 4; i_i_i_3++) {
        #pragma unroll
        for (int j_i_i_i_3 = 0; j_i_i_i_3 < 4; j_i_i_i_3++) {
            if (64*i_o + 4*i_i_o_3 + i_i_i_3 < n) {
                if (64*j_o + 4*j_i_i_o_3 + j_i_i_i_3 < 48) {
                    c[3072*i_o + 192*i_i_o_3 + 64*j_o + 48*i_i_i_3 + 4*j_i_i_o_3 + j_i_i_i_3] =
                        t[4*i_i_i_3 + j_i_i_i_3] * 2.0f;
                }
            }
        }
    }
}
