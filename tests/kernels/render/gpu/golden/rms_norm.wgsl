// kernel rms_norm(x: bf16[n, 64], g: bf16[64]) -> (y: bf16[n, 64])
//   m[i < n] = (sum j < 64: fused(f32(x[i, j]) * f32(x[i, j]))) * 0.015625
//   y[i < n, j < 64] = bf16(f32(x[i, j]) * recip(sqrt(m[i] + 1e-05))) * g[j]
// module kernel_rms_norm
struct Numbers { n: i32, lab_blocks: i32 }
@group(0) @binding(0) var<storage, read_write> x: array<u32>;
@group(0) @binding(1) var<storage, read_write> g: array<u32>;
@group(0) @binding(2) var<storage, read_write> y: array<atomic<u32>>;
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
    let i_block: i32 = lab_block;
    var m: f32;
    var t: f32;
    var t_parts: f32;
    t = 0.0f;
    t_parts = 0.0f;
    let i_sum_own: i32 = i32(lab_thread / 32u);
    let j_thread: i32 = i32(lab_thread % 32u);
    if (8 * i_block + i_sum_own < n) {
        for (var j_lane: i32 = 0; j_lane < 2; j_lane += 1) {
            let v0: f32 =
                lab_cast_bf16_f32(extractBits(x[u32(512 * i_block + 64 * i_sum_own + 2 * j_thread
                + j_lane) / 2u],
                16u * (u32(512 * i_block + 64 * i_sum_own + 2 * j_thread + j_lane) % 2u), 16u));
            t_parts = lab_fma_f32(v0, v0, t_parts);
        }
    }
    t += lab_warp_sum_f32(t_parts, 32);
    m = t * 0.015625f;
    let i_end_2_own: i32 = i32(lab_thread / 32u);
    let j_2_vector: i32 = i32(lab_thread % 32u);
    if (8 * i_block + i_end_2_own < n) {
        for (var j_2_lane: i32 = 0; j_2_lane < 2; j_2_lane += 1) {
            let v1: f32 =
                lab_cast_bf16_f32(extractBits(x[u32(512 * i_block + 64 * i_end_2_own
                + 2 * j_2_vector + j_2_lane) / 2u],
                16u * (u32(512 * i_block + 64 * i_end_2_own + 2 * j_2_vector + j_2_lane) % 2u),
                16u));
            let v2: f32 = v1 * lab_recip_f32(lab_sqrt_f32(m + 1e-05f));
            let v3: f32 =
                lab_cast_bf16_f32(extractBits(g[u32(2 * j_2_vector + j_2_lane) / 2u],
                16u * (u32(2 * j_2_vector + j_2_lane) % 2u), 16u));
            {
                let lab_at = u32(512 * i_block + 64 * i_end_2_own + 2 * j_2_vector + j_2_lane);
                let lab_by = 16u * (lab_at % 2u);
                let lab_bits =
                    (u32(u32(lab_cast_f32_bf16(lab_cast_bf16_f32(lab_cast_f32_bf16(v2))
                    * v3))) & 0xffffu) << lab_by;
                atomicAnd(&y[lab_at / 2u], ~(0xffffu << lab_by));
                atomicOr(&y[lab_at / 2u], lab_bits);
            }
        }
    }
}
