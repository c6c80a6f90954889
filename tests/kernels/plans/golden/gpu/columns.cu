// kernel columns(x: f32[n, 72]) -> (y: f32[72])
//   y[j < 72] = sum i < n: x[i, j]
extern "C" __global__ void __launch_bounds__(256) kernel_columns(
    const float *__restrict__ x,
    float *__restrict__ y,
    const lab_i64 n
) {
    __shared__ __align__(16) float lab_slots_f32[256];
    const lab_i64 j_o = blockIdx.x;
    float t;
    float t_parts;
    t = 0.0f;
    t_parts = 0.0f;
    const int i_i = threadIdx.x / 32;
    const int j_i_3 = threadIdx.x % 32;
    for (lab_i64 i_o = 0; i_o < (n + 7) / 8; i_o++) {
        if (8*i_o + i_i < n) {
            t_parts += 32*j_o + j_i_3 < 72 ? x[576*i_o + 72*i_i + 32*j_o + j_i_3] : 0;
        }
    }
    const int j_i_4 = threadIdx.x % 32;
    lab_slots_f32[threadIdx.x] = t_parts;
    lab_sync();
    for (int v0 = 0; v0 < 8; v0++) {
        t += lab_slots_f32[32*v0 + j_i_4];
    }
    if (threadIdx.x < 32) {
        const int j_i_5 = threadIdx.x;
        if (32*j_o + j_i_5 < 72) {
            y[32*j_o + j_i_5] = t;
        }
    }
}
