// kernel columns(x: f32[n, 72]) -> (y: f32[72])
//   y[j < 72] = sum i < n: x[i, j]
// module kernel_columns
struct Numbers { n: i32, lab_blocks: i32 }
@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(0) @binding(2) var<uniform> lab_numbers: Numbers;
var<workgroup> lab_slots_f32: array<f32, 256>;

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
    let j_block: i32 = lab_block;
    var t: f32;
    var t_parts: f32;
    t = 0.0f;
    t_parts = 0.0f;
    let i_thread: i32 = i32(lab_thread / 32u);
    let j_sum_own: i32 = i32(lab_thread % 32u);
    for (var i_turn: i32 = 0; i_turn < (n + 7) / 8; i_turn += 1) {
        if (8 * i_turn + i_thread < n) {
            t_parts +=
                select(0.0f, x[576 * i_turn + 72 * i_thread + 32 * j_block + j_sum_own],
                32 * j_block + j_sum_own < 72);
        }
    }
    let j_end_own: i32 = i32(lab_thread % 32u);
    lab_slots_f32[lab_thread] = t_parts;
    lab_sync();
    for (var v0: i32 = 0; v0 < 8; v0 += 1) {
        t += lab_slots_f32[32 * v0 + j_end_own];
    }
    if (lab_thread < 32u) {
        let j_y_own: i32 = i32(lab_thread);
        if (32 * j_block + j_y_own < 72) {
            y[32 * j_block + j_y_own] = t;
        }
    }
}
