// kernel product(a: f16[128, 128], b: f16[128, 128], z: f16[128]) -> (c: f16[128, 128])
//   c[i < 128, j < 128] = (sum k < 128: a[i, k] * b[k, j]) + z[j]
extern "C" __global__ void __launch_bounds__(256) kernel_product(
    const lab_f16 *__restrict__ a,
    const lab_f16 *__restrict__ b,
    const lab_f16 *__restrict__ z,
    lab_f16 *__restrict__ c,
    const __grid_constant__ lab_tensor_map lab_map_a,
    const __grid_constant__ lab_tensor_map lab_map_b
) {
    extern __shared__ __align__(1024) lab_u8 lab_tiles[];
    lab_f16 *const rows = (lab_f16 *)lab_tiles;
    lab_f16 *const columns = (lab_f16 *)(lab_tiles + 32768);
    lab_u64 *const lab_arrived = (lab_u64 *)(lab_tiles + 65536);
    const int i_block = blockIdx.x;
    const int j_block = 0;
    if (threadIdx.x == 0) {
        for (int lab_i = 0; lab_i < 2; lab_i++) {
            lab_barrier_init(&lab_arrived[lab_i], 2);
        }
        lab_barrier_seen();
    }
    float t[64];
    #pragma unroll
    for (int v0 = 0; v0 < 64; v0++) {
        t[v0] = 0.0f;
    }
    if (threadIdx.x == 0) {
        lab_barrier_expect(&lab_arrived[0], 16384);
        lab_bulk_tile(&rows[0], &lab_map_a, 0, 128*i_block, &lab_arrived[0]);
    }
    if (threadIdx.x == 0) {
        lab_barrier_expect(&lab_arrived[0], 16384);
        lab_bulk_tile(&columns[0], &lab_map_b, 128*j_block, 0, &lab_arrived[0]);
        lab_bulk_tile(&columns[4096], &lab_map_b, 128*j_block + 64, 0, &lab_arrived[0]);
    }
    for (int k_step = 0; k_step < 2; k_step++) {
        lab_sync();
        if (threadIdx.x == 0) {
            if (k_step < 1) {
                lab_barrier_expect(&lab_arrived[(k_step + 1) % 2], 16384);
                lab_bulk_tile(&rows[8192*((k_step + 1) % 2)], &lab_map_a, 64*k_step + 64,
                    128*i_block, &lab_arrived[(k_step + 1) % 2]);
                lab_barrier_expect(&lab_arrived[(k_step + 1) % 2], 16384);
                lab_bulk_tile(&columns[8192*((k_step + 1) % 2)], &lab_map_b, 128*j_block,
                    64*k_step + 64, &lab_arrived[(k_step + 1) % 2]);
                lab_bulk_tile(&columns[8192*((k_step + 1) % 2) + 4096], &lab_map_b,
                    128*j_block + 64, 64*k_step + 64, &lab_arrived[(k_step + 1) % 2]);
            }
        }
        lab_barrier_wait(&lab_arrived[k_step], 0);
        const int i_sum_group = threadIdx.x / 128;
        lab_wgmma_keep(t, 64);
        lab_wgmma_begin();
        #pragma unroll
        for (int k_part = 0; k_part < 4; k_part++) {
            lab_wgmma_f16_n128_rows(&t[0],
                lab_wgmma_matrix(rows + (8192*k_step + 4096*i_sum_group + 16*k_part), 16, 1024, 1),
                lab_wgmma_matrix(columns + (8192*k_step + 1024*k_part), 8192, 1024, 1), 1);
        }
        lab_wgmma_commit();
        lab_wgmma_wait(0);
        lab_wgmma_keep(t, 64);
    }
    const int i_end_group = threadIdx.x / 128;
    #pragma unroll
    for (int v1 = 0; v1 < 64; v1++) {
        const int i_end_own = lab_group_row(v1);
        const int j_end_own = lab_group_column(v1);
        const float v2 = lab_cast_f16_f32(z[128*j_block + j_end_own]);
        c[16384*i_block + 8192*i_end_group + 128*i_end_own + 128*j_block + j_end_own] =
            lab_cast_f32_f16(lab_cast_f16_f32(lab_cast_f32_f16(t[v1])) + v2);
    }
}
