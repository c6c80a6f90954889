// kernel decode_attention(q: f32[2, 16], k: f32[2, m, 16], v: f32[2, m, 16]) -> (O: f32[2, 16])
//   t[i < 2, j < (m + 255)//256, n < 256] = where(i64[256*j + n] < i64[m], [256*j + n < m:
//       where(i64[256*j + n] < 3, -inf, sum o < 16: fused(q[i, o] * k[i, 256*j + n, o]))], -inf)
//   m_2[i < 2, j < (m + 255)//256] = math.maximum(max n < 256: t[i, j, n], -3.4028235e+38)
//   w[i < 2, j < (m + 255)//256, n < 256] = exp2((t[i, j, n] - m_2[i, j]) * 1.442695)
//   l[i < 2, j < (m + 255)//256] = sum n < 256: w[i, j, n]
//   a[i < 2, j < (m + 255)//256, o < 16] = sum n < 256: fused(w[i, j, n] * [256*j + n < m: v[i,
//       256*j + n, o]])
//   top[i < 2] = max j < (m + 255)//256: m_2[i, j]
//   c[i < 2, j < (m + 255)//256] = exp2((m_2[i, j] - top[i]) * 1.442695)
//   whole[i < 2] = sum j < (m + 255)//256: fused(l[i, j] * c[i, j])
//   O[i < 2, o < 16] = recip(whole[i]) * (sum j < (m + 255)//256: fused(a[i, j, o] * c[i, j]))
kernel void kernel_decode_attention__0(
    device const float *q [[buffer(0)]],
    device const float *k [[buffer(1)]],
    device const float *v [[buffer(2)]],
    device float *m_2 [[buffer(3)]],
    device float *l [[buffer(4)]],
    device float *a [[buffer(5)]],
    device const float *c [[buffer(6)]],
    device const float *O [[buffer(7)]],
    constant lab_i64 &m [[buffer(8)]],
    uint lab_block [[threadgroup_position_in_grid]],
    uint lab_thread [[thread_position_in_threadgroup]]
) {
    threadgroup __attribute__((aligned(16))) float w[256];
    threadgroup __attribute__((aligned(16))) float t[256];
    threadgroup __attribute__((aligned(16))) float lab_shared_f32[8];
    const lab_i64 i = lab_block / ((m + 255) / 256);
    const lab_i64 j = lab_block % ((m + 255) / 256);
    const int n = lab_thread;
    float t_2 = 0.0f;
    if (256*j + n < m) {
        float t_3 = 0.0f;
        for (int o = 0; o < 16; o++) {
            t_3 = lab_fma_f32(q[16*i + o], k[16*i*m + 4096*j + 16*n + o], t_3);
        }
        t_2 = (256*j + n) < 3 ? -LAB_INF : t_3;
    }
    t[n] = (256*j + n) < (m) ? t_2 : -LAB_INF;
    float t_4 = -LAB_INF;
    float t_4_parts = -LAB_INF;
    const int n_2_thread = lab_thread;
    t_4_parts = lab_max_f32(t_4_parts, t[n_2_thread]);
    t_4 = lab_max_f32(t_4, lab_block_max_f32(t_4_parts, lab_shared_f32, 256));
    if (lab_thread == 0) {
        m_2[((m + 255) / 256)*i + j] = lab_maximum_f32(t_4, -3.4028235e+38f);
    }
    lab_sync();
    const int n_3 = lab_thread;
    w[n_3] = lab_exp2_f32((t[n_3] - m_2[((m + 255) / 256)*i + j]) * 1.442695f);
    float t_5 = 0.0f;
    float t_5_parts = 0.0f;
    const int n_4_thread = lab_thread;
    t_5_parts += w[n_4_thread];
    t_5 += lab_block_sum_f32(t_5_parts, lab_shared_f32, 256);
    if (lab_thread == 0) {
        l[((m + 255) / 256)*i + j] = t_5;
    }
    if (lab_thread < 16) {
        const int o_2 = lab_thread;
        float t_6 = 0.0f;
        for (int n_5 = 0; n_5 < 256; n_5++) {
            const float v0 = 256*j + n_5 < m ? v[16*i*m + 4096*j + 16*n_5 + o_2] : 0;
            t_6 = lab_fma_f32(w[n_5], v0, t_6);
        }
        a[16*((m + 255) / 256)*i + 16*j + o_2] = t_6;
    }
}

kernel void kernel_decode_attention__1(
    device const float *q [[buffer(0)]],
    device const float *k [[buffer(1)]],
    device const float *v [[buffer(2)]],
    device const float *m_2 [[buffer(3)]],
    device const float *l [[buffer(4)]],
    device const float *a [[buffer(5)]],
    device float *c [[buffer(6)]],
    device float *O [[buffer(7)]],
    constant lab_i64 &m [[buffer(8)]],
    uint lab_block [[threadgroup_position_in_grid]],
    uint lab_thread [[thread_position_in_threadgroup]]
) {
    const lab_i64 i_6 = lab_block;
    float whole;
    float top;
    float t_7 = -LAB_INF;
    float t_7_parts = -LAB_INF;
    const int j_6_thread = lab_thread;
    for (lab_i64 j_6_turn = 0; j_6_turn < (m + 8191) / 8192; j_6_turn++) {
        if (32*j_6_turn + j_6_thread < (m + 255) / 256) {
            t_7_parts =
                lab_max_f32(t_7_parts, m_2[((m + 255) / 256)*i_6 + 32*j_6_turn + j_6_thread]);
        }
    }
    t_7 = lab_max_f32(t_7, lab_warp_max_f32(t_7_parts, 32));
    top = t_7;
    const int j_7_thread = lab_thread;
    for (lab_i64 j_7_turn = 0; j_7_turn < (m + 8191) / 8192; j_7_turn++) {
        if (32*j_7_turn + j_7_thread < (m + 255) / 256) {
            const float v0 = m_2[((m + 255) / 256)*i_6 + 32*j_7_turn + j_7_thread] - top;
            c[((m + 255) / 256)*i_6 + 32*j_7_turn + j_7_thread] = lab_exp2_f32(v0 * 1.442695f);
        }
    }
    float t_8 = 0.0f;
    float t_8_parts = 0.0f;
    const int j_8_thread = lab_thread;
    for (lab_i64 j_8_turn = 0; j_8_turn < (m + 8191) / 8192; j_8_turn++) {
        if (32*j_8_turn + j_8_thread < (m + 255) / 256) {
            const float v1 = l[((m + 255) / 256)*i_6 + 32*j_8_turn + j_8_thread];
            const float v2 = c[((m + 255) / 256)*i_6 + 32*j_8_turn + j_8_thread];
            t_8_parts = lab_fma_f32(v1, v2, t_8_parts);
        }
    }
    t_8 += lab_warp_sum_f32(t_8_parts, 32);
    whole = t_8;
    lab_sync();
    if (lab_thread < 16) {
        const int o_3 = lab_thread;
        float t_9 = 0.0f;
        for (lab_i64 j_9 = 0; j_9 < (m + 255) / 256; j_9++) {
            const float v3 = a[16*((m + 255) / 256)*i_6 + 16*j_9 + o_3];
            t_9 = lab_fma_f32(v3, c[((m + 255) / 256)*i_6 + j_9], t_9);
        }
        O[16*i_6 + o_3] = lab_recip_f32(whole) * t_9;
    }
}
