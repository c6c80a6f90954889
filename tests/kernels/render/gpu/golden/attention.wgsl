// kernel attention(q: f32[2, n, 16], k: f32[2, n, 16], v: f32[2, n, 16]) -> (O: f32[2, n, 16])
//   s[i < 2, j < n, o < n] = where(i32[j] < i32[o], -inf, sum p < 16: fused(q[i, j, p] * k[i, o,
//       p]))
//   O[i < 2, j < n, p < 16] = recip(l) * acc where (m, l, acc) = fold o < n from (-3.4028235e+38,
//       0.0, 0.0): let a = math.maximum(m, s[i, j, o]); let b = exp2((m - a) * 1.442695); let c =
//       exp2((s[i, j, o] - a) * 1.442695); (a, l * b + c, acc * b + fused(c * v[i, o, p]))
// module kernel_attention
struct Numbers { n: i32, lab_blocks: i32 }
@group(0) @binding(0) var<storage, read_write> q: array<f32>;
@group(0) @binding(1) var<storage, read_write> k: array<f32>;
@group(0) @binding(2) var<storage, read_write> v: array<f32>;
@group(0) @binding(3) var<storage, read_write> O: array<f32>;
@group(0) @binding(4) var<uniform> lab_numbers: Numbers;
var<workgroup> acc: array<f32, 512>;
var<workgroup> s: array<f32, 2048>;
var<workgroup> keys: array<f32, 1024>;
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
    let i: i32 = lab_block / ((n + 31) / 32);
    let j_block: i32 = lab_block % ((n + 31) / 32);
    var m: array<f32, 2>;
    var l: array<f32, 2>;
    for (var j_m_own: i32 = 0; j_m_own < 2; j_m_own += 1) {
        m[j_m_own] = -0x1.fffffep+127f;
    }
    for (var j_l_own: i32 = 0; j_l_own < 2; j_l_own += 1) {
        l[j_l_own] = 0.0f;
    }
    let j_start_group: i32 = i32(lab_thread / 16u);
    let p_start_thread: i32 = i32(lab_thread % 16u);
    for (var j_start_own: i32 = 0; j_start_own < 2; j_start_own += 1) {
        acc[32 * j_start_group + 16 * j_start_own + p_start_thread] = 0.0f;
    }
    for (var o_block: i32 = 0; o_block < j_block / 2 + 1; o_block += 1) {
        var top: array<f32, 2>;
        var c: array<f32, 2>;
        var top_parts: array<f32, 2>;
        var l_parts: array<f32, 2>;
        let keys_o_turn: i32 = i32(lab_thread / 64u);
        let keys_o_thread: i32 = i32(lab_thread / 4u % 16u);
        let keys_p_2_vector: i32 = i32(lab_thread % 4u);
        for (var keys_p_2_lane: i32 = 0; keys_p_2_lane < 4; keys_p_2_lane += 1) {
            keys[256 * keys_p_2_vector + 64 * keys_p_2_lane + 16 * keys_o_turn + keys_o_thread] =
                select(0.0f,
                k[16 * i * n + 1024 * o_block + 256 * keys_o_turn + 16 * keys_o_thread
                + 4 * keys_p_2_vector + keys_p_2_lane],
                64 * o_block + 16 * keys_o_turn + keys_o_thread < n);
        }
        lab_sync();
        let j_block_score_group: i32 = i32(lab_thread / 16u);
        let o_score_thread: i32 = i32(lab_thread % 16u);
        var t: array<f32, 8>;
        for (var j_block_score_start_own: i32 = 0; j_block_score_start_own < 2;
            j_block_score_start_own += 1) {
            for (var o_score_start_turn: i32 = 0; o_score_start_turn < 4; o_score_start_turn += 1) {
                t[4 * j_block_score_start_own + o_score_start_turn] = 0.0f;
            }
        }
        for (var p_2: i32 = 0; p_2 < 16; p_2 += 1) {
            for (var j_block_score_sum_own: i32 = 0; j_block_score_sum_own < 2;
                j_block_score_sum_own += 1) {
                for (var o_score_sum_turn: i32 = 0; o_score_sum_turn < 4; o_score_sum_turn += 1) {
                    let v0: f32 =
                        select(0.0f,
                        q[16 * i * n + 512 * j_block + 32 * j_block_score_group
                        + 16 * j_block_score_sum_own + p_2],
                        32 * j_block + 2 * j_block_score_group + j_block_score_sum_own < n);
                    let v1: f32 = keys[64 * p_2 + 16 * o_score_sum_turn + o_score_thread];
                    t[4 * j_block_score_sum_own + o_score_sum_turn] =
                        lab_fma_f32(v0, v1, t[4 * j_block_score_sum_own + o_score_sum_turn]);
                }
            }
        }
        for (var j_block_score_end_own: i32 = 0; j_block_score_end_own < 2;
            j_block_score_end_own += 1) {
            for (var o_score_end_turn: i32 = 0; o_score_end_turn < 4; o_score_end_turn += 1) {
                let v2: i32 = 32 * j_block + 2 * j_block_score_group + j_block_score_end_own;
                let v3: u32 =
                    select(0u, 1u, v2 < 64 * o_block + 16 * o_score_end_turn + o_score_thread);
                s[128 * j_block_score_group + 64 * j_block_score_end_own + 16 * o_score_end_turn
                    + o_score_thread] =
                    select(t[4 * j_block_score_end_own + o_score_end_turn], -lab_infinity(),
                    v3 != 0u);
            }
        }
        for (var j_block_top_own: i32 = 0; j_block_top_own < 2; j_block_top_own += 1) {
            top[j_block_top_own] = m[j_block_top_own];
        }
        for (var j_block_start_own: i32 = 0; j_block_start_own < 2; j_block_start_own += 1) {
            top_parts[j_block_start_own] = -lab_infinity();
        }
        lab_sync();
        let j_block_top_2_group: i32 = i32(lab_thread / 16u);
        let o_top_thread: i32 = i32(lab_thread % 16u);
        for (var j_block_top_2_own: i32 = 0; j_block_top_2_own < 2; j_block_top_2_own += 1) {
            for (var o_top_turn: i32 = 0; o_top_turn < 4; o_top_turn += 1) {
                if (64 * o_block + 16 * o_top_turn + o_top_thread < n) {
                    top_parts[j_block_top_2_own] =
                        lab_max_f32(top_parts[j_block_top_2_own],
                        s[128 * j_block_top_2_group + 64 * j_block_top_2_own + 16 * o_top_turn
                        + o_top_thread]);
                }
            }
        }
        for (var j_block_end_own: i32 = 0; j_block_end_own < 2; j_block_end_own += 1) {
            top[j_block_end_own] =
                lab_max_f32(top[j_block_end_own], lab_warp_max_f32(top_parts[j_block_end_own], 16));
        }
        for (var j_block_c_own: i32 = 0; j_block_c_own < 2; j_block_c_own += 1) {
            c[j_block_c_own] = lab_exp2_f32((m[j_block_c_own] - top[j_block_c_own]) * 1.442695f);
        }
        for (var j_block_m_own: i32 = 0; j_block_m_own < 2; j_block_m_own += 1) {
            m[j_block_m_own] = top[j_block_m_own];
        }
        for (var j_block_l_own: i32 = 0; j_block_l_own < 2; j_block_l_own += 1) {
            l[j_block_l_own] = l[j_block_l_own] * c[j_block_l_own];
        }
        let j_block_each_group: i32 = i32(lab_thread / 16u);
        let o_weight_each_thread: i32 = i32(lab_thread % 16u);
        for (var j_block_each_own: i32 = 0; j_block_each_own < 2; j_block_each_own += 1) {
            for (var o_weight_each_turn: i32 = 0; o_weight_each_turn < 4; o_weight_each_turn += 1) {
                let v4: f32 =
                    s[128 * j_block_each_group + 64 * j_block_each_own + 16 * o_weight_each_turn
                    + o_weight_each_thread];
                s[128 * j_block_each_group + 64 * j_block_each_own + 16 * o_weight_each_turn
                    + o_weight_each_thread] =
                    lab_exp2_f32((v4 - top[j_block_each_own]) * 1.442695f);
            }
        }
        for (var j_block_start_2_own: i32 = 0; j_block_start_2_own < 2; j_block_start_2_own += 1) {
            l_parts[j_block_start_2_own] = 0.0f;
        }
        let j_block_sum_group: i32 = i32(lab_thread / 16u);
        let o_weight_sum_thread: i32 = i32(lab_thread % 16u);
        for (var j_block_sum_own: i32 = 0; j_block_sum_own < 2; j_block_sum_own += 1) {
            for (var o_weight_sum_turn: i32 = 0; o_weight_sum_turn < 4; o_weight_sum_turn += 1) {
                l_parts[j_block_sum_own] +=
                    select(0.0f,
                    s[128 * j_block_sum_group + 64 * j_block_sum_own + 16 * o_weight_sum_turn
                    + o_weight_sum_thread],
                    64 * o_block + 16 * o_weight_sum_turn + o_weight_sum_thread < n);
            }
        }
        for (var j_block_end_2_own: i32 = 0; j_block_end_2_own < 2; j_block_end_2_own += 1) {
            l[j_block_end_2_own] += lab_warp_sum_f32(l_parts[j_block_end_2_own], 16);
        }
        let j_block_scale_group: i32 = i32(lab_thread / 16u);
        let p_scale_thread: i32 = i32(lab_thread % 16u);
        for (var j_block_scale_own: i32 = 0; j_block_scale_own < 2; j_block_scale_own += 1) {
            let v5: f32 = acc[32 * j_block_scale_group + 16 * j_block_scale_own + p_scale_thread];
            acc[32 * j_block_scale_group + 16 * j_block_scale_own + p_scale_thread] =
                v5 * c[j_block_scale_own];
        }
        lab_sync();
        let j_block_mix_group: i32 = i32(lab_thread / 16u);
        let p_mix_thread: i32 = i32(lab_thread % 16u);
        var mixed: array<f32, 2>;
        for (var mixed_j_start_own: i32 = 0; mixed_j_start_own < 2; mixed_j_start_own += 1) {
            mixed[mixed_j_start_own] =
                acc[32 * j_block_mix_group + 16 * mixed_j_start_own + p_mix_thread];
        }
        for (var o_mix: i32 = 0; o_mix < 64; o_mix += 1) {
            for (var j_block_mix_own: i32 = 0; j_block_mix_own < 2; j_block_mix_own += 1) {
                let v6: f32 =
                    select(0.0f, s[128 * j_block_mix_group + 64 * j_block_mix_own + o_mix],
                    64 * o_block + o_mix < n);
                let v7: f32 =
                    select(0.0f, v[16 * i * n + 1024 * o_block + 16 * o_mix + p_mix_thread],
                    64 * o_block + o_mix < n);
                mixed[j_block_mix_own] = lab_fma_f32(v6, v7, mixed[j_block_mix_own]);
            }
        }
        for (var mixed_j_end_own: i32 = 0; mixed_j_end_own < 2; mixed_j_end_own += 1) {
            acc[32 * j_block_mix_group + 16 * mixed_j_end_own + p_mix_thread] =
                mixed[mixed_j_end_own];
        }
    }
    let j_end_group: i32 = i32(lab_thread / 16u);
    let p_thread: i32 = i32(lab_thread % 16u);
    for (var j_end_own: i32 = 0; j_end_own < 2; j_end_own += 1) {
        if (32 * j_block + 2 * j_end_group + j_end_own < n) {
            let v8: f32 = acc[32 * j_end_group + 16 * j_end_own + p_thread];
            O[16 * i * n + 512 * j_block + 32 * j_end_group + 16 * j_end_own + p_thread] =
                lab_recip_f32(l[j_end_own]) * v8;
        }
    }
}
