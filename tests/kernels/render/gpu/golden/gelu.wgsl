// kernel gelu(x: f32[n, 64], b: f32[64]) -> (y: f32[n, 64])
//   y[i < n, j < 64] = (x[i, j] + b[j]) * recip(exp2((x[i, j] + b[j]) * -2.302208) + 1.0)
// module kernel_gelu
struct Numbers { n: i32, lab_blocks: i32 }
@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> b: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@group(0) @binding(3) var<uniform> lab_numbers: Numbers;

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
    let ij_turn: i32 = lab_block;
    let ij_thread: i32 = i32(lab_thread);
    if (256 * ij_turn + ij_thread < 16 * n) {
        for (var j_lane: i32 = 0; j_lane < 4; j_lane += 1) {
            let v0: f32 =
                x[1024 * ij_turn + 4 * ij_thread + j_lane] + b[4 * (ij_thread % 16) + j_lane];
            y[1024 * ij_turn + 4 * ij_thread + j_lane] =
                v0 * lab_recip_f32(lab_exp2_f32(v0 * -2.302208f) + 1.0f);
        }
    }
}
