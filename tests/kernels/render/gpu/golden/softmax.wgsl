// kernel softmax(x: f32[n, 160]) -> (y: f32[n, 160])
//   m[i < n] = max j < 160: x[i, j]
//   e[i < n, j < 160] = exp2((x[i, j] - m[i]) * 1.442695)
//   y[i < n, j < 160] = e[i, j] * recip(sum k < 160: e[i, k])
// module kernel_softmax
struct Numbers { n: i32, lab_blocks: i32 }
@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(0) @binding(2) var<uniform> lab_numbers: Numbers;
var<workgroup> e: array<f32, 1280>;
var<workgroup> lab_shared_f32: array<f32, 256>;

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
    var m: f32;
    var t: f32;
    var t_parts: f32;
    var t_2: f32;
    var t_2_parts: f32;
    t = -lab_infinity();
    t_parts = -lab_infinity();
    let i_max_own: i32 = i32(lab_thread / 32u);
    let j_thread: i32 = i32(lab_thread % 32u);
    if (8 * i_block + i_max_own < n) {
        for (var j_turn: i32 = 0; j_turn < 2; j_turn += 1) {
            if (32 * j_turn + j_thread < 40) {
                for (var j_lane: i32 = 0; j_lane < 4; j_lane += 1) {
                    t_parts =
                        lab_max_f32(t_parts,
                        x[1280 * i_block + 160 * i_max_own + 128 * j_turn + 4 * j_thread + j_lane]);
                }
            }
        }
    }
    t = lab_max_f32(t, lab_warp_max_f32(t_parts, 32));
    m = t;
    let i_end_2_own: i32 = i32(lab_thread / 32u);
    let j_2_thread: i32 = i32(lab_thread % 32u);
    if (8 * i_block + i_end_2_own < n) {
        for (var j_2_turn: i32 = 0; j_2_turn < 2; j_2_turn += 1) {
            if (32 * j_2_turn + j_2_thread < 40) {
                for (var j_2_lane: i32 = 0; j_2_lane < 4; j_2_lane += 1) {
                    let v0: f32 =
                        x[1280 * i_block + 160 * i_end_2_own + 128 * j_2_turn + 4 * j_2_thread
                        + j_2_lane];
                    e[160 * i_end_2_own + 128 * j_2_turn + 4 * j_2_thread + j_2_lane] =
                        lab_exp2_f32((v0 - m) * 1.442695f);
                }
            }
        }
    }
    t_2 = 0.0f;
    t_2_parts = 0.0f;
    let i_sum_own: i32 = i32(lab_thread / 32u);
    let k_thread: i32 = i32(lab_thread % 32u);
    if (8 * i_block + i_sum_own < n) {
        for (var k_turn: i32 = 0; k_turn < 2; k_turn += 1) {
            if (32 * k_turn + k_thread < 40) {
                for (var k_lane: i32 = 0; k_lane < 4; k_lane += 1) {
                    t_2_parts += e[160 * i_sum_own + 128 * k_turn + 4 * k_thread + k_lane];
                }
            }
        }
    }
    t_2 += lab_warp_sum_f32(t_2_parts, 32);
    let i_end_4_own: i32 = i32(lab_thread / 32u);
    let j_3_thread: i32 = i32(lab_thread % 32u);
    if (8 * i_block + i_end_4_own < n) {
        for (var j_3_turn: i32 = 0; j_3_turn < 2; j_3_turn += 1) {
            if (32 * j_3_turn + j_3_thread < 40) {
                for (var j_3_lane: i32 = 0; j_3_lane < 4; j_3_lane += 1) {
                    let v1: f32 = e[160 * i_end_4_own + 128 * j_3_turn + 4 * j_3_thread + j_3_lane];
                    y[1280 * i_block + 160 * i_end_4_own + 128 * j_3_turn + 4 * j_3_thread
                        + j_3_lane] = v1 * lab_recip_f32(t_2);
                }
            }
        }
    }
}
