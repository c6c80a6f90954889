// kernel half_matmul(a: f16[n, 40], b: f16[48, 40], z: f16[48]) -> (c: f16[n, 48])
//   c[i < n, j < 48] = (sum k < 40: fused(a[i, k] * b[j, k])) + z[j]
// module kernel_half_matmul
struct Numbers { n: i32, lab_blocks: i32 }
@group(0) @binding(0) var<storage, read_write> a: array<u32>;
@group(0) @binding(1) var<storage, read_write> b: array<u32>;
@group(0) @binding(2) var<storage, read_write> z: array<u32>;
@group(0) @binding(3) var<storage, read_write> c: array<atomic<u32>>;
@group(0) @binding(4) var<uniform> lab_numbers: Numbers;
var<workgroup> rows: array<f32, 1024>;
var<workgroup> columns: array<f32, 1024>;

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) lab_group: vec3<u32>,
    @builtin(local_invocation_index) lab_index: u32,
) {
    lab_thread = lab_index;
    lab_zero = lab_group.z;
    let lab_block = i32(lab_group.x + 65535u * lab_group.y);
    if (lab_block >= lab_numbers.lab_blocks) { return; }
    let n = lab_numbers.n;
    let i_block: i32 = lab_block;
    let j_block: i32 = 0;
    var t: array<f32, 16>;
    for (var i_start_own: i32 = 0; i_start_own < 4; i_start_own += 1) {
        for (var j_start_own: i32 = 0; j_start_own < 4; j_start_own += 1) {
            t[4 * i_start_own + j_start_own] = 0.0f;
        }
    }
    for (var k_step: i32 = 0; k_step < 3; k_step += 1) {
        lab_sync();
        if (lab_thread / 8u < 16u) {
            let rows_i_thread: i32 = i32(lab_thread / 8u);
            let rows_i_own: i32 = i32(lab_thread / 2u % 4u);
            let rows_k_vector: i32 = i32(lab_thread % 2u);
            for (var rows_k_lane: i32 = 0; rows_k_lane < 8; rows_k_lane += 1) {
                let v0: f32 =
                    select(0.0f,
                    lab_cast_f16_f32(extractBits(a[u32(2560 * i_block + 160 * rows_i_thread
                    + 40 * rows_i_own + 16 * k_step + 8 * rows_k_vector + rows_k_lane) / 2u],
                    16u
                    * (u32(2560 * i_block + 160 * rows_i_thread + 40 * rows_i_own + 16 * k_step
                    + 8 * rows_k_vector + rows_k_lane) % 2u), 16u)),
                    2 * k_step + rows_k_vector < 5
                    && 64 * i_block + 4 * rows_i_thread + rows_i_own < n);
                rows[512 * rows_k_vector + 64 * rows_k_lane + 4 * rows_i_thread + rows_i_own] = v0;
            }
        }
        if (lab_thread / 8u < 16u) {
            let columns_j_thread: i32 = i32(lab_thread / 8u);
            let columns_j_own: i32 = i32(lab_thread / 2u % 4u);
            let columns_k_vector: i32 = i32(lab_thread % 2u);
            for (var columns_k_lane: i32 = 0; columns_k_lane < 8; columns_k_lane += 1) {
                let v1: f32 =
                    select(0.0f,
                    lab_cast_f16_f32(extractBits(b[u32(2560 * j_block + 160 * columns_j_thread
                    + 40 * columns_j_own + 16 * k_step + 8 * columns_k_vector + columns_k_lane)
                    / 2u],
                    16u
                    * (u32(2560 * j_block + 160 * columns_j_thread + 40 * columns_j_own
                    + 16 * k_step + 8 * columns_k_vector + columns_k_lane) % 2u), 16u)),
                    64 * j_block + 4 * columns_j_thread + columns_j_own < 48
                    && 2 * k_step + columns_k_vector < 5);
                columns[512 * columns_k_vector + 64 * columns_k_lane + 4 * columns_j_thread
                    + columns_j_own] = v1;
            }
        }
        lab_sync();
        let i_sum_thread: i32 = i32(lab_thread / 16u);
        let j_sum_thread: i32 = i32(lab_thread % 16u);
        for (var k_own: i32 = 0; k_own < 16; k_own += 1) {
            for (var i_sum_own: i32 = 0; i_sum_own < 4; i_sum_own += 1) {
                for (var j_sum_own: i32 = 0; j_sum_own < 4; j_sum_own += 1) {
                    let v2: f32 = columns[64 * k_own + 4 * j_sum_thread + j_sum_own];
                    let v3: f32 = rows[64 * k_own + 4 * i_sum_thread + i_sum_own];
                    t[4 * i_sum_own + j_sum_own] =
                        lab_fma_f32(v3, v2, t[4 * i_sum_own + j_sum_own]);
                }
            }
        }
    }
    let i_end_thread: i32 = i32(lab_thread / 16u);
    let j_end_thread: i32 = i32(lab_thread % 16u);
    for (var i_end_own: i32 = 0; i_end_own < 4; i_end_own += 1) {
        for (var j_end_own: i32 = 0; j_end_own < 4; j_end_own += 1) {
            if (64 * i_block + 4 * i_end_thread + i_end_own < n) {
                if (64 * j_block + 4 * j_end_thread + j_end_own < 48) {
                    let v4: f32 = lab_cast_f16_f32(lab_cast_f32_f16(t[4 * i_end_own + j_end_own]));
                    {
                        let lab_at =
                            u32(3072 * i_block + 192 * i_end_thread + 64 * j_block + 48 * i_end_own
                            + 4 * j_end_thread + j_end_own);
                        let lab_by = 16u * (lab_at % 2u);
                        let lab_bits =
                            (u32(u32(lab_cast_f32_f16(v4
                            + lab_cast_f16_f32(extractBits(z[u32(64 * j_block + 4 * j_end_thread
                            + j_end_own) / 2u],
                            16u * (u32(64 * j_block + 4 * j_end_thread + j_end_own) % 2u),
                            16u))))) & 0xffffu) << lab_by;
                        atomicAnd(&c[lab_at / 2u], ~(0xffffu << lab_by));
                        atomicOr(&c[lab_at / 2u], lab_bits);
                    }
                }
            }
        }
    }
}
