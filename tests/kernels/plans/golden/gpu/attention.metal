// kernel attention(q: f32[2, n, 16], k: f32[2, n, 16], v: f32[2, n, 16]) -> (O: f32[2, n, 16])
//   s[i < 2, j < n, o < n] = where(i32[j] < i32[o], -inf, sum p < 16: fused(q[i, j, p] * k[i, o,
//       p]))
//   O[i < 2, j < n, p < 16] = recip(l) * acc where (m, l, acc) = fold o < n from (-3.4028235e+38,
//       0.0, 0.0): let a = math.maximum(m, s[i, j, o]); let b = exp2((m - a) * 1.442695); let c =
//       exp2((s[i, j, o] - a) * 1.442695); (a, l * b + c, acc * b + fused(c * v[i, o, p]))
kernel void kernel_attention(
    device const float *q [[buffer(0)]],
    device const float *k [[buffer(1)]],
    device const float *v [[buffer(2)]],
    device float *O [[buffer(3)]],
    constant lab_i64 &n [[buffer(4)]],
    uint lab_block [[threadgroup_position_in_grid]],
    uint lab_thread [[thread_position_in_threadgroup]]
) {
    threadgroup __attribute__((aligned(16))) float acc[1024];
    threadgroup __attribute__((aligned(16))) float s[4096];
    threadgroup __attribute__((aligned(16))) float keys[1024];
    const lab_i64 i = lab_block / ((n + 63) / 64);
    const lab_i64 j_block = lab_block % ((n + 63) / 64);
    float m[4];
    float l[4];
    for (int j_m_own = 0; j_m_own < 4; j_m_own++) {
        m[j_m_own] = -3.4028235e+38f;
    }
    for (int j_l_own = 0; j_l_own < 4; j_l_own++) {
        l[j_l_own] = 0.0f;
    }
    const int j_start_group = lab_thread / 16;
    const int p_start_thread = lab_thread % 16;
    #pragma unroll
    for (int j_start_own = 0; j_start_own < 4; j_start_own++) {
        acc[64*j_start_group + 16*j_start_own + p_start_thread] = 0.0f;
    }
    for (lab_i64 o_block = 0; o_block < j_block + 1; o_block++) {
        float top[4];
        float c[4];
        float top_parts[4];
        float l_parts[4];
        const int keys_o_turn = lab_thread / 64;
        const int keys_o_thread = lab_thread / 4 % 16;
        const int keys_p_2_vector = lab_thread % 4;
        const lab_f32x4 v0 =
            64*o_block + 16*keys_o_turn + keys_o_thread < n
            ? LAB_LOAD(lab_f32x4, k,
            16*i*n + 1024*o_block + 256*keys_o_turn + 16*keys_o_thread + 4*keys_p_2_vector)
            : lab_f32x4();
        #pragma unroll
        for (int keys_p_2_lane = 0; keys_p_2_lane < 4; keys_p_2_lane++) {
            keys[256*keys_p_2_vector + 64*keys_p_2_lane + 16*keys_o_turn + keys_o_thread] =
                v0.at[keys_p_2_lane];
        }
        lab_sync();
        const int j_block_score_group = lab_thread / 16;
        const int o_score_thread = lab_thread % 16;
        float t[16];
        for (int j_block_score_start_own = 0; j_block_score_start_own < 4;
            j_block_score_start_own++) {
            for (int o_score_start_turn = 0; o_score_start_turn < 4; o_score_start_turn++) {
                t[4*j_block_score_start_own + o_score_start_turn] = 0.0f;
            }
        }
        for (int p_2 = 0; p_2 < 16; p_2++) {
            #pragma unroll
            for (int j_block_score_sum_own = 0; j_block_score_sum_own < 4;
                j_block_score_sum_own++) {
                #pragma unroll
                for (int o_score_sum_turn = 0; o_score_sum_turn < 4; o_score_sum_turn++) {
                    const float v1 =
                        64*j_block + 4*j_block_score_group + j_block_score_sum_own < n
                        ? q[16*i*n + 1024*j_block + 64*j_block_score_group
                        + 16*j_block_score_sum_own + p_2] : 0;
                    const float v2 = keys[64*p_2 + 16*o_score_sum_turn + o_score_thread];
                    t[4*j_block_score_sum_own + o_score_sum_turn] =
                        lab_fma_f32(v1, v2, t[4*j_block_score_sum_own + o_score_sum_turn]);
                }
            }
        }
        for (int j_block_score_end_own = 0; j_block_score_end_own < 4; j_block_score_end_own++) {
            for (int o_score_end_turn = 0; o_score_end_turn < 4; o_score_end_turn++) {
                const lab_i32 v3 =
                    lab_cast_i64_i32(64*j_block + 4*j_block_score_group + j_block_score_end_own);
                const lab_bool v4 =
                    v3 < lab_cast_i64_i32(64*o_block + 16*o_score_end_turn + o_score_thread);
                s[256*j_block_score_group + 64*j_block_score_end_own + 16*o_score_end_turn
                    + o_score_thread] =
                    v4 ? -LAB_INF : t[4*j_block_score_end_own + o_score_end_turn];
            }
        }
        for (int j_block_top_own = 0; j_block_top_own < 4; j_block_top_own++) {
            top[j_block_top_own] = m[j_block_top_own];
        }
        #pragma unroll
        for (int j_block_start_own = 0; j_block_start_own < 4; j_block_start_own++) {
            top_parts[j_block_start_own] = -LAB_INF;
        }
        lab_sync();
        const int j_block_top_2_group = lab_thread / 16;
        const int o_top_thread = lab_thread % 16;
        #pragma unroll
        for (int j_block_top_2_own = 0; j_block_top_2_own < 4; j_block_top_2_own++) {
            #pragma unroll
            for (int o_top_turn = 0; o_top_turn < 4; o_top_turn++) {
                if (64*o_block + 16*o_top_turn + o_top_thread < n) {
                    top_parts[j_block_top_2_own] =
                        lab_max_f32(top_parts[j_block_top_2_own],
                        s[256*j_block_top_2_group + 64*j_block_top_2_own + 16*o_top_turn
                        + o_top_thread]);
                }
            }
        }
        #pragma unroll
        for (int j_block_end_own = 0; j_block_end_own < 4; j_block_end_own++) {
            top[j_block_end_own] =
                lab_max_f32(top[j_block_end_own], lab_warp_max_f32(top_parts[j_block_end_own], 16));
        }
        for (int j_block_c_own = 0; j_block_c_own < 4; j_block_c_own++) {
            c[j_block_c_own] = lab_exp2_f32((m[j_block_c_own] - top[j_block_c_own]) * 1.442695f);
        }
        for (int j_block_m_own = 0; j_block_m_own < 4; j_block_m_own++) {
            m[j_block_m_own] = top[j_block_m_own];
        }
        for (int j_block_l_own = 0; j_block_l_own < 4; j_block_l_own++) {
            l[j_block_l_own] = l[j_block_l_own] * c[j_block_l_own];
        }
        const int j_block_each_group = lab_thread / 16;
        const int o_weight_each_thread = lab_thread % 16;
        #pragma unroll
        for (int j_block_each_own = 0; j_block_each_own < 4; j_block_each_own++) {
            #pragma unroll
            for (int o_weight_each_turn = 0; o_weight_each_turn < 4; o_weight_each_turn++) {
                const float v5 =
                    s[256*j_block_each_group + 64*j_block_each_own + 16*o_weight_each_turn
                    + o_weight_each_thread];
                s[256*j_block_each_group + 64*j_block_each_own + 16*o_weight_each_turn
                    + o_weight_each_thread] =
                    lab_exp2_f32((v5 - top[j_block_each_own]) * 1.442695f);
            }
        }
        #pragma unroll
        for (int j_block_start_2_own = 0; j_block_start_2_own < 4; j_block_start_2_own++) {
            l_parts[j_block_start_2_own] = 0.0f;
        }
        const int j_block_sum_group = lab_thread / 16;
        const int o_weight_sum_thread = lab_thread % 16;
        #pragma unroll
        for (int j_block_sum_own = 0; j_block_sum_own < 4; j_block_sum_own++) {
            #pragma unroll
            for (int o_weight_sum_turn = 0; o_weight_sum_turn < 4; o_weight_sum_turn++) {
                l_parts[j_block_sum_own] +=
                    64*o_block + 16*o_weight_sum_turn + o_weight_sum_thread < n
                    ? s[256*j_block_sum_group + 64*j_block_sum_own + 16*o_weight_sum_turn
                    + o_weight_sum_thread] : 0;
            }
        }
        #pragma unroll
        for (int j_block_end_2_own = 0; j_block_end_2_own < 4; j_block_end_2_own++) {
            l[j_block_end_2_own] += lab_warp_sum_f32(l_parts[j_block_end_2_own], 16);
        }
        const int j_block_scale_group = lab_thread / 16;
        const int p_scale_thread = lab_thread % 16;
        #pragma unroll
        for (int j_block_scale_own = 0; j_block_scale_own < 4; j_block_scale_own++) {
            const float v6 = acc[64*j_block_scale_group + 16*j_block_scale_own + p_scale_thread];
            acc[64*j_block_scale_group + 16*j_block_scale_own + p_scale_thread] =
                v6 * c[j_block_scale_own];
        }
        lab_sync();
        const int j_block_mix_group = lab_thread / 16;
        const int p_mix_thread = lab_thread % 16;
        float mixed[4];
        for (int mixed_j_start_own = 0; mixed_j_start_own < 4; mixed_j_start_own++) {
            mixed[mixed_j_start_own] =
                acc[64*j_block_mix_group + 16*mixed_j_start_own + p_mix_thread];
        }
        for (int o_mix = 0; o_mix < 64; o_mix++) {
            #pragma unroll
            for (int j_block_mix_own = 0; j_block_mix_own < 4; j_block_mix_own++) {
                const float v7 =
                    64*o_block + o_mix < n ? s[256*j_block_mix_group + 64*j_block_mix_own + o_mix]
                    : 0;
                const float v8 =
                    64*o_block + o_mix < n ? v[16*i*n + 1024*o_block + 16*o_mix + p_mix_thread] : 0;
                mixed[j_block_mix_own] = lab_fma_f32(v7, v8, mixed[j_block_mix_own]);
            }
        }
        for (int mixed_j_end_own = 0; mixed_j_end_own < 4; mixed_j_end_own++) {
            acc[64*j_block_mix_group + 16*mixed_j_end_own + p_mix_thread] = mixed[mixed_j_end_own];
        }
    }
    const int j_end_group = lab_thread / 16;
    const int p_thread = lab_thread % 16;
    #pragma unroll
    for (int j_end_own = 0; j_end_own < 4; j_end_own++) {
        if (64*j_block + 4*j_end_group + j_end_own < n) {
            const float v9 = acc[64*j_end_group + 16*j_end_own + p_thread];
            O[16*i*n + 1024*j_block + 64*j_end_group + 16*j_end_own + p_thread] =
                lab_recip_f32(l[j_end_own]) * v9;
        }
    }
}
