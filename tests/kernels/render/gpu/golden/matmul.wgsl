// kernel matmul(a: f32[n, 40], b: f32[40, 48]) -> (c: f32[n, 48])
//   c[i < n, j < 48] = (sum k < 40: fused(a[i, k] * b[k, j])) * 2.0
// module kernel_matmul
struct Numbers { n: i32, lab_blocks: i32 }
@group(0) @binding(0) var<storage, read_write> a: array<f32>;
@group(0) @binding(1) var<storage, read_write> b: array<f32>;
@group(0) @binding(2) var<storage, read_write> c: array<f32>;
@group(0) @binding(3) var<uniform> lab_numbers: Numbers;
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
        let rows_i_thread: i32 = i32(lab_thread / 16u);
        let rows_i_own: i32 = i32(lab_thread / 4u % 4u);
        let rows_k_vector: i32 = i32(lab_thread % 4u);
        for (var rows_k_lane: i32 = 0; rows_k_lane < 4; rows_k_lane += 1) {
            rows[256 * rows_k_vector + 64 * rows_k_lane + 4 * rows_i_thread + rows_i_own] =
                select(0.0f,
                a[2560 * i_block + 160 * rows_i_thread + 40 * rows_i_own + 16 * k_step
                + 4 * rows_k_vector + rows_k_lane],
                4 * k_step + rows_k_vector < 10
                && 64 * i_block + 4 * rows_i_thread + rows_i_own < n);
        }
        let columns_k_own: i32 = i32(lab_thread / 16u);
        let columns_j_thread: i32 = i32(lab_thread % 16u);
        for (var columns_j_lane: i32 = 0; columns_j_lane < 4; columns_j_lane += 1) {
            columns[64 * columns_k_own + 4 * columns_j_thread + columns_j_lane] =
                select(0.0f,
                b[768 * k_step + 64 * j_block + 48 * columns_k_own + 4 * columns_j_thread
                + columns_j_lane],
                16 * j_block + columns_j_thread < 12 && 16 * k_step + columns_k_own < 40);
        }
        lab_sync();
        let i_sum_thread: i32 = i32(lab_thread / 16u);
        let j_sum_thread: i32 = i32(lab_thread % 16u);
        for (var k_own: i32 = 0; k_own < 16; k_own += 1) {
            for (var i_sum_own: i32 = 0; i_sum_own < 4; i_sum_own += 1) {
                for (var j_sum_own: i32 = 0; j_sum_own < 4; j_sum_own += 1) {
                    let v0: f32 = columns[64 * k_own + 4 * j_sum_thread + j_sum_own];
                    let v1: f32 = rows[64 * k_own + 4 * i_sum_thread + i_sum_own];
                    t[4 * i_sum_own + j_sum_own] =
                        lab_fma_f32(v1, v0, t[4 * i_sum_own + j_sum_own]);
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
                    c[3072 * i_block + 192 * i_end_thread + 64 * j_block + 48 * i_end_own
                        + 4 * j_end_thread + j_end_own] = t[4 * i_end_own + j_end_own] * 2.0f;
                }
            }
        }
    }
}
