// kernel columns(x: f32[n, 72]) -> (y: f32[72])
//   y[j < 72] = sum i < n: x[i, j]
extern "C" __global__ void __launch_bounds__(256) kernel_columns(
    const float *__restrict__ x,
    float *__restrict__ y,
    const lab_i64 n
) {
    __shared__ __align__(16) float lab_slots_f32[256];
    const lab_i64 j_block = blockIdx.x;
    float t;
    float t_parts;
    t = 0.0f;
    t_parts = 0.0f;
    const int i_thread = threadIdx.x / 32;
    const int j_sum_own = threadIdx.x % 32;
    for (lab_i64 i_turn = 0; i_turn < (n + 7) / 8; i_turn++) {
        if (8*i_turn + i_thread < n) {
            t_parts +=
                32*j_block + j_sum_own < 72 ? x[576*i_turn + 72*i_thread + 32*j_block + j_sum_own]
                : 0;
        }
    }
    const int j_end_own = threadIdx.x % 32;
    lab_slots_f32[threadIdx.x] = t_parts;
    lab_sync();
    for (int v0 = 0; v0 < 8; v0++) {
        t += lab_slots_f32[32*v0 + j_end_own];
    }
    if (threadIdx.x < 32) {
        const int j_y_own = threadIdx.x;
        if (32*j_block + j_y_own < 72) {
            y[32*j_block + j_y_own] = t;
        }
    }
}
