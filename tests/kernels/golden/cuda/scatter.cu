// scatter add along axis 1: f16[4, 6] by i64[4, 9]
extern "C" __global__ void __launch_bounds__(256) kernel_scatter__0(
    const lab_f16 *x,
    const lab_i64 *__restrict__ index,
    const lab_f16 *__restrict__ values,
    float *__restrict__ wide,
    const lab_f16 *y
) {
    const int b = blockIdx.x;
    const int l = threadIdx.x;
    for (int k = 0; k < 16; k++) {
        if (4096*b + 256*k + l < 24) {
            wide[4096*b + 256*k + l] = lab_cast_f16_f32(x[4096*b + 256*k + l]);
        }
    }
}

extern "C" __global__ void __launch_bounds__(256) kernel_scatter__1(
    const lab_f16 *x,
    const lab_i64 *__restrict__ index,
    const lab_f16 *__restrict__ values,
    float *__restrict__ wide,
    const lab_f16 *y,
    int *__restrict__ lab_fault
) {
    int lab_wrong = 0;
    const int b_2 = blockIdx.x;
    const int l_2 = threadIdx.x;
    if (256*b_2 + l_2 < 4) {
        for (int k_2 = 0; k_2 < 9; k_2++) {
            const lab_i64 p = index[2304*b_2 + 9*l_2 + k_2];
            if (p < 0 || p >= 6) {
                lab_wrong = 1;
            }
            if (p >= 0 && p < 6) {
                wide[1536*b_2 + 6*l_2 + p] += lab_cast_f16_f32(values[2304*b_2 + 9*l_2 + k_2]);
            }
        }
    }
    if (lab_wrong) *lab_fault = 1;
}

extern "C" __global__ void __launch_bounds__(256) kernel_scatter__2(
    const lab_f16 *x,
    const lab_i64 *__restrict__ index,
    const lab_f16 *__restrict__ values,
    const float *__restrict__ wide,
    lab_f16 *y
) {
    const int b_3 = blockIdx.x;
    const int l_3 = threadIdx.x;
    for (int k_3 = 0; k_3 < 16; k_3++) {
        if (4096*b_3 + 256*k_3 + l_3 < 24) {
            y[4096*b_3 + 256*k_3 + l_3] = lab_cast_f32_f16(wide[4096*b_3 + 256*k_3 + l_3]);
        }
    }
}
