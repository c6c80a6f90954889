// scatter add along axis 1: f16[4, 6] by i64[4, 9]
extern "C" __global__ void __launch_bounds__(256) kernel_scatter_widen(
    lab_f16 *lab_x,
    lab_i64 *lab_index,
    lab_f16 *lab_values,
    float *lab_wide,
    lab_f16 *lab_y
) {
    for (int lab_k = 0; lab_k < 16; lab_k++) {
        const lab_i64 lab_e = (lab_i64)blockIdx.x * 4096 + threadIdx.x + lab_k * 256;
        if (lab_e >= (lab_i64)24) return;
        lab_wide[lab_e] = lab_cast_f16_f32(lab_x[lab_e]);
    }
}

extern "C" __global__ void __launch_bounds__(256) kernel_scatter(
    lab_f16 *lab_x,
    lab_i64 *lab_index,
    lab_f16 *lab_values,
    float *lab_wide,
    lab_f16 *lab_y,
    int *__restrict__ lab_fault
) {
    const lab_i64 lab_inner = (lab_i64)1, lab_size = (lab_i64)6, lab_count = (lab_i64)9;
    const lab_i64 lab_e = (lab_i64)blockIdx.x * 256 + threadIdx.x;
    if (lab_e >= (lab_i64)4 * lab_inner) return;
    const lab_i64 lab_i = lab_e / lab_inner, lab_j = lab_e % lab_inner;
    for (lab_i64 lab_k = 0; lab_k < lab_count; lab_k++) {
        const lab_i64 lab_from = (lab_i * lab_count + lab_k) * lab_inner + lab_j;
        const lab_i64 lab_at = lab_index[lab_from];
        if (lab_at < 0 || lab_at >= lab_size) {
            *lab_fault = 1;
            return;
        }
        const lab_i64 lab_to = (lab_i * lab_size + lab_at) * lab_inner + lab_j;
        lab_wide[lab_to] += lab_cast_f16_f32(lab_values[lab_from]);
    }
}

extern "C" __global__ void __launch_bounds__(256) kernel_scatter_narrow(
    lab_f16 *lab_x,
    lab_i64 *lab_index,
    lab_f16 *lab_values,
    float *lab_wide,
    lab_f16 *lab_y
) {
    for (int lab_k = 0; lab_k < 16; lab_k++) {
        const lab_i64 lab_e = (lab_i64)blockIdx.x * 4096 + threadIdx.x + lab_k * 256;
        if (lab_e >= (lab_i64)24) return;
        lab_y[lab_e] = lab_cast_f32_f16(lab_wide[lab_e]);
    }
}
