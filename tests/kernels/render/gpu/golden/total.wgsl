// kernel total(x: f32[n, 256]) -> (y: f32[])
//   y[] = sum i < n: sum j < 256: x[i, j]
// module kernel_total__0
struct Numbers { n: i32, lab_blocks: i32 }
@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> t_pieces: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@group(0) @binding(3) var<uniform> lab_numbers: Numbers;
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
    let ij_piece: i32 = lab_block;
    var t_pieces_own: f32 = 0.0f;
    var t_pieces_own_parts: f32 = 0.0f;
    let ij_thread: i32 = i32(lab_thread);
    for (var ij_turn: i32 = 0;
        ij_turn < floordiv(lab_min(4096, 64 * n - 4096 * ij_piece) + 255, 256); ij_turn += 1) {
        if (256 * ij_turn + ij_thread < lab_min(4096, 64 * n - 4096 * ij_piece)) {
            for (var j_lane: i32 = 0; j_lane < 4; j_lane += 1) {
                t_pieces_own_parts += x[16384 * ij_piece + 1024 * ij_turn + 4 * ij_thread + j_lane];
            }
        }
    }
    t_pieces_own += lab_block_sum_f32(t_pieces_own_parts, 256);
    if (lab_thread == 0u) {
        t_pieces[ij_piece] = t_pieces_own;
    }
}

// module kernel_total__1
struct Numbers { n: i32, lab_blocks: i32 }
@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> t_pieces: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@group(0) @binding(3) var<uniform> lab_numbers: Numbers;
var<workgroup> lab_shared_f32: array<f32, 32>;

@compute @workgroup_size(32)
fn main(
    @builtin(workgroup_id) lab_group: vec3<u32>,
    @builtin(local_invocation_index) lab_index: u32,
) {
    lab_thread = lab_index;
    lab_zero = lab_group.z;
    let lab_block = i32(lab_group.x + 65535u * lab_group.y);
    if (lab_block >= lab_numbers.lab_blocks) { return; }
    let n = lab_numbers.n;
    var t: f32 = 0.0f;
    var t_parts: f32 = 0.0f;
    let t_pieces_thread: i32 = i32(lab_thread);
    for (var t_pieces_turn: i32 = 0; t_pieces_turn < (n + 2047) / 2048; t_pieces_turn += 1) {
        if (32 * t_pieces_turn + t_pieces_thread < (n + 63) / 64) {
            t_parts += t_pieces[32 * t_pieces_turn + t_pieces_thread];
        }
    }
    t += lab_warp_sum_f32(t_parts, 32);
    if (lab_thread == 0u) {
        y[0] = t;
    }
}
