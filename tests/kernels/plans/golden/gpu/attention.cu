// kernel attention(q: f32[2, n, 16], k: f32[2, n, 16], v: f32[2, n, 16]) -> (O: f32[2, n, 16])
//   s[i < 2, j < n, o < n] = where(i32[j] < i32[o], -inf, sum p < 16: fused(q[i, j, p] * k[i, o,
//       p]))
//   O[i < 2, j < n, p < 16] = acc * recip(l) where (m, l, acc) = fold o < n from (-3.4028235e+38,
//       0.0, 0.0): let a = math.maximum(m, s[i, j, o]); let b = exp2((m - a) * 1.442695); let c =
//       exp2((s[i, j, o] - a) * 1.442695); (a, l * b + c, acc * b + fused(c * v[i, o, p]))
extern "C" __global__ void __launch_bounds__(256) kernel_attention(
    const float *__restrict__ q,
    const float *__restrict__ k,
    const float *__restrict__ v,
    float *__restrict__ O,
    const lab_i64 n
) {
    __shared__ __align__(16) float acc[1024];
    __shared__ __align__(16) float s[4096];
    __shared__ __align__(16) float keys[1024];
    const lab_i64 i = blockIdx.x / ((n + 63) / 64);
    const lab_i64 j_o = blockIdx.x % ((n + 63) / 64);
    float m[4];
    float l[4];
    for (int j_i_i = 0; j_i_i < 4; j_i_i++) {
        m[j_i_i] = -3.4028235e+38f;
    }
    for (int j_i_i_2 = 0; j_i_i_2 < 4; j_i_i_2++) {
        l[j_i_i_2] = 0.0f;
    }
    const int j_i_o_3 = threadIdx.x / 16;
    const int p_2_i = threadIdx.x % 16;
    #pragma unroll
    for (int j_i_i_3 = 0; j_i_i_3 < 4; j_i_i_3++) {
        acc[64*j_i_o_3 + 16*j_i_i_3 + p_2_i] = 0.0f;
    }
    for (lab_i64 o_o = 0; o_o < j_o + 1; o_o++) {
        float top[4];
        float c[4];
        float top_parts[4];
        float l_parts[4];
        const int keys_o_i_o_2 = threadIdx.x / 64;
        const int keys_o_i_i = threadIdx.x / 4 % 16;
        const int keys_p_3_o = threadIdx.x % 4;
        const lab_f32x4 v0 =
            64*o_o + 16*keys_o_i_o_2 + keys_o_i_i < n
            ? LAB_LOAD(lab_f32x4, k,
            16*i*n + 1024*o_o + 256*keys_o_i_o_2 + 16*keys_o_i_i + 4*keys_p_3_o) : lab_f32x4();
        #pragma unroll
        for (int keys_p_3_i = 0; keys_p_3_i < 4; keys_p_3_i++) {
            keys[256*keys_p_3_o + 64*keys_p_3_i + 16*keys_o_i_o_2 + keys_o_i_i] = v0.at[keys_p_3_i];
        }
        lab_sync();
        const int j_i_o_4 = threadIdx.x / 16;
        const int o_i_i = threadIdx.x % 16;
        float t[16];
        for (int j_i_i_4 = 0; j_i_i_4 < 4; j_i_i_4++) {
            for (int o_i_o = 0; o_i_o < 4; o_i_o++) {
                t[4*j_i_i_4 + o_i_o] = 0.0f;
            }
        }
        for (int p_3 = 0; p_3 < 16; p_3++) {
            #pragma unroll
            for (int j_i_i_4_15 = 0; j_i_i_4_15 < 4; j_i_i_4_15++) {
                #pragma unroll
                for (int o_i_o_2 = 0; o_i_o_2 < 4; o_i_o_2++) {
                    const float v1 =
                        64*j_o + 4*j_i_o_4 + j_i_i_4_15 < n
                        ? q[16*i*n + 1024*j_o + 64*j_i_o_4 + 16*j_i_i_4_15 + p_3] : 0;
                    t[4*j_i_i_4_15 + o_i_o_2] =
                        lab_fma_f32(v1, keys[64*p_3 + 16*o_i_o_2 + o_i_i],
                        t[4*j_i_i_4_15 + o_i_o_2]);
                }
            }
        }
        for (int j_i_i_4_16 = 0; j_i_i_4_16 < 4; j_i_i_4_16++) {
            for (int o_i_o_3 = 0; o_i_o_3 < 4; o_i_o_3++) {
                const lab_i32 v2 = lab_cast_i64_i32(64*j_o + 4*j_i_o_4 + j_i_i_4_16);
                const lab_bool v3 = v2 < lab_cast_i64_i32(64*o_o + 16*o_i_o_3 + o_i_i);
                s[256*j_i_o_4 + 64*j_i_i_4_16 + 16*o_i_o_3 + o_i_i] =
                    v3 ? -LAB_INF : t[4*j_i_i_4_16 + o_i_o_3];
            }
        }
        for (int j_i_i_4_2 = 0; j_i_i_4_2 < 4; j_i_i_4_2++) {
            top[j_i_i_4_2] = m[j_i_i_4_2];
        }
        #pragma unroll
        for (int j_i_i_4_3 = 0; j_i_i_4_3 < 4; j_i_i_4_3++) {
            top_parts[j_i_i_4_3] = -LAB_INF;
        }
        const int j_i_o_4_4 = threadIdx.x / 16;
        const int o_i_2_i = threadIdx.x % 16;
        #pragma unroll
        for (int j_i_i_4_4 = 0; j_i_i_4_4 < 4; j_i_i_4_4++) {
            #pragma unroll
            for (int o_i_2_o = 0; o_i_2_o < 4; o_i_2_o++) {
                if (64*o_o + 16*o_i_2_o + o_i_2_i < n) {
                    top_parts[j_i_i_4_4] =
                        lab_max_f32(top_parts[j_i_i_4_4],
                        s[256*j_i_o_4_4 + 64*j_i_i_4_4 + 16*o_i_2_o + o_i_2_i]);
                }
            }
        }
        #pragma unroll
        for (int j_i_i_4_5 = 0; j_i_i_4_5 < 4; j_i_i_4_5++) {
            top[j_i_i_4_5] =
                lab_max_f32(top[j_i_i_4_5], lab_warp_max_f32(top_parts[j_i_i_4_5], 16));
        }
        for (int j_i_i_4_6 = 0; j_i_i_4_6 < 4; j_i_i_4_6++) {
            c[j_i_i_4_6] = lab_exp2_f32((m[j_i_i_4_6] - top[j_i_i_4_6]) * 1.442695f);
        }
        for (int j_i_i_4_7 = 0; j_i_i_4_7 < 4; j_i_i_4_7++) {
            m[j_i_i_4_7] = top[j_i_i_4_7];
        }
        for (int j_i_i_4_8 = 0; j_i_i_4_8 < 4; j_i_i_4_8++) {
            l[j_i_i_4_8] = l[j_i_i_4_8] * c[j_i_i_4_8];
        }
        const int j_i_o_4_9 = threadIdx.x / 16;
        const int o_i_3_i = threadIdx.x % 16;
        #pragma unroll
        for (int j_i_i_4_9 = 0; j_i_i_4_9 < 4; j_i_i_4_9++) {
            #pragma unroll
            for (int o_i_3_o = 0; o_i_3_o < 4; o_i_3_o++) {
                const float v4 =
                    s[256*j_i_o_4_9 + 64*j_i_i_4_9 + 16*o_i_3_o + o_i_3_i] - top[j_i_i_4_9];
                s[256*j_i_o_4_9 + 64*j_i_i_4_9 + 16*o_i_3_o + o_i_3_i] =
                    lab_exp2_f32(v4 * 1.442695f);
            }
        }
        #pragma unroll
        for (int j_i_i_4_10 = 0; j_i_i_4_10 < 4; j_i_i_4_10++) {
            l_parts[j_i_i_4_10] = 0.0f;
        }
        const int j_i_o_4_11 = threadIdx.x / 16;
        const int o_i_3_2_i = threadIdx.x % 16;
        #pragma unroll
        for (int j_i_i_4_11 = 0; j_i_i_4_11 < 4; j_i_i_4_11++) {
            #pragma unroll
            for (int o_i_3_2_o = 0; o_i_3_2_o < 4; o_i_3_2_o++) {
                l_parts[j_i_i_4_11] +=
                    64*o_o + 16*o_i_3_2_o + o_i_3_2_i < n
                    ? s[256*j_i_o_4_11 + 64*j_i_i_4_11 + 16*o_i_3_2_o + o_i_3_2_i] : 0;
            }
        }
        #pragma unroll
        for (int j_i_i_4_12 = 0; j_i_i_4_12 < 4; j_i_i_4_12++) {
            l[j_i_i_4_12] += lab_warp_sum_f32(l_parts[j_i_i_4_12], 16);
        }
        const int j_i_o_4_13 = threadIdx.x / 16;
        const int p_4_i = threadIdx.x % 16;
        #pragma unroll
        for (int j_i_i_4_13 = 0; j_i_i_4_13 < 4; j_i_i_4_13++) {
            acc[64*j_i_o_4_13 + 16*j_i_i_4_13 + p_4_i] =
                acc[64*j_i_o_4_13 + 16*j_i_i_4_13 + p_4_i] * c[j_i_i_4_13];
        }
        lab_sync();
        const int j_i_o_4_14 = threadIdx.x / 16;
        const int p_5_i = threadIdx.x % 16;
        float mixed[4];
        for (int mixed_j_i_i_4_14 = 0; mixed_j_i_i_4_14 < 4; mixed_j_i_i_4_14++) {
            mixed[mixed_j_i_i_4_14] = acc[64*j_i_o_4_14 + 16*mixed_j_i_i_4_14 + p_5_i];
        }
        for (int o_i_4 = 0; o_i_4 < 64; o_i_4++) {
            #pragma unroll
            for (int j_i_i_4_14 = 0; j_i_i_4_14 < 4; j_i_i_4_14++) {
                const float v5 = 64*o_o + o_i_4 < n ? s[256*j_i_o_4_14 + 64*j_i_i_4_14 + o_i_4] : 0;
                const float v6 = 64*o_o + o_i_4 < n ? v[16*i*n + 1024*o_o + 16*o_i_4 + p_5_i] : 0;
                mixed[j_i_i_4_14] = lab_fma_f32(v5, v6, mixed[j_i_i_4_14]);
            }
        }
        for (int mixed_j_i_i_4_14_2 = 0; mixed_j_i_i_4_14_2 < 4; mixed_j_i_i_4_14_2++) {
            acc[64*j_i_o_4_14 + 16*mixed_j_i_i_4_14_2 + p_5_i] = mixed[mixed_j_i_i_4_14_2];
        }
    }
    const int j_i_o_5 = threadIdx.x / 16;
    const int p_i = threadIdx.x % 16;
    #pragma unroll
    for (int j_i_i_5 = 0; j_i_i_5 < 4; j_i_i_5++) {
        if (64*j_o + 4*j_i_o_5 + j_i_i_5 < n) {
            O[16*i*n + 1024*j_o + 64*j_i_o_5 + 16*j_i_i_5 + p_i] =
                acc[64*j_i_o_5 + 16*j_i_i_5 + p_i] * lab_recip_f32(l[j_i_i_5]);
        }
    }
}
