// kernel decode_attention(q: f32[2, 16], k: f32[2, m, 16], v: f32[2, m, 16]) -> (O: f32[2, 16])
//   t[i < 2, j < (m + 255)//256, n < 256] = where(i64[256*j + n] < i64[m], [256*j + n < m:
//       where(i64[256*j + n] < 3, -inf, sum o < 16: fused(q[i, o] * k[i, 256*j + n, o]))], -inf)
//   m_2[i < 2, j < (m + 255)//256] = math.maximum(max n < 256: t[i, j, n], -3.4028235e+38)
//   w[i < 2, j < (m + 255)//256, n < 256] = exp2((t[i, j, n] - m_2[i, j]) * 1.442695)
//   l[i < 2, j < (m + 255)//256] = sum n < 256: w[i, j, n]
//   a[i < 2, j < (m + 255)//256, o < 16] = sum n < 256: fused(w[i, j, n] * [256*j + n < m: v[i,
//       256*j + n, o]])
//   top[i < 2] = max j < (m + 255)//256: m_2[i, j]
//   c[i < 2, j < (m + 255)//256] = exp2((m_2[i, j] - top[i]) * 1.442695)
//   whole[i < 2] = sum j < (m + 255)//256: fused(l[i, j] * c[i, j])
//   O[i < 2, o < 16] = recip(whole[i]) * (sum j < (m + 255)//256: fused(a[i, j, o] * c[i, j]))
// module kernel_decode_attention__0
struct Numbers { m: i32, lab_blocks: i32 }
@group(0) @binding(0) var<storage, read_write> q: array<f32>;
@group(0) @binding(1) var<storage, read_write> k: array<f32>;
@group(0) @binding(2) var<storage, read_write> v: array<f32>;
@group(0) @binding(3) var<storage, read_write> m_2: array<f32>;
@group(0) @binding(4) var<storage, read_write> l: array<f32>;
@group(0) @binding(5) var<storage, read_write> a: array<f32>;
@group(0) @binding(6) var<storage, read_write> c: array<f32>;
@group(0) @binding(7) var<storage, read_write> O: array<f32>;
@group(0) @binding(8) var<uniform> lab_numbers: Numbers;
var<workgroup> w: array<f32, 256>;
var<workgroup> t: array<f32, 256>;
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
    let m = lab_numbers.m;
    let i: i32 = lab_block / ((m + 255) / 256);
    let j: i32 = lab_block % ((m + 255) / 256);
    let n: i32 = i32(lab_thread);
    var t_2: f32 = 0.0f;
    if (256 * j + n < m) {
        var t_3: f32 = 0.0f;
        for (var o: i32 = 0; o < 16; o += 1) {
            t_3 = lab_fma_f32(q[16 * i + o], k[16 * i * m + 4096 * j + 16 * n + o], t_3);
        }
        t_2 = select(t_3, -lab_infinity(), (256 * j + n) < 3);
    }
    t[n] = select(-lab_infinity(), t_2, (256 * j + n) < m);
    var t_4: f32 = -lab_infinity();
    var t_4_parts: f32 = -lab_infinity();
    let n_2_thread: i32 = i32(lab_thread);
    t_4_parts = lab_max_f32(t_4_parts, t[n_2_thread]);
    t_4 = lab_max_f32(t_4, lab_block_max_f32(t_4_parts, 256));
    if (lab_thread == 0u) {
        m_2[((m + 255) / 256) * i + j] = lab_maximum_f32(t_4, -0x1.fffffep+127f);
    }
    lab_sync();
    let n_3: i32 = i32(lab_thread);
    w[n_3] = lab_exp2_f32((t[n_3] - m_2[((m + 255) / 256) * i + j]) * 1.442695f);
    var t_5: f32 = 0.0f;
    var t_5_parts: f32 = 0.0f;
    let n_4_thread: i32 = i32(lab_thread);
    t_5_parts += w[n_4_thread];
    t_5 += lab_block_sum_f32(t_5_parts, 256);
    if (lab_thread == 0u) {
        l[((m + 255) / 256) * i + j] = t_5;
    }
    if (lab_thread < 16u) {
        let o_2: i32 = i32(lab_thread);
        var t_6: f32 = 0.0f;
        for (var n_5: i32 = 0; n_5 < 256; n_5 += 1) {
            let v0: f32 =
                select(0.0f, v[16 * i * m + 4096 * j + 16 * n_5 + o_2], 256 * j + n_5 < m);
            t_6 = lab_fma_f32(w[n_5], v0, t_6);
        }
        a[16 * ((m + 255) / 256) * i + 16 * j + o_2] = t_6;
    }
}

// module kernel_decode_attention__1
struct Numbers { m: i32, lab_blocks: i32 }
@group(0) @binding(0) var<storage, read_write> q: array<f32>;
@group(0) @binding(1) var<storage, read_write> k: array<f32>;
@group(0) @binding(2) var<storage, read_write> v: array<f32>;
@group(0) @binding(3) var<storage, read_write> m_2: array<f32>;
@group(0) @binding(4) var<storage, read_write> l: array<f32>;
@group(0) @binding(5) var<storage, read_write> a: array<f32>;
@group(0) @binding(6) var<storage, read_write> c: array<f32>;
@group(0) @binding(7) var<storage, read_write> O: array<f32>;
@group(0) @binding(8) var<uniform> lab_numbers: Numbers;
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
    let m = lab_numbers.m;
    let i_6: i32 = lab_block;
    var whole: f32;
    var top: f32;
    var t_7: f32 = -lab_infinity();
    var t_7_parts: f32 = -lab_infinity();
    let j_6_thread: i32 = i32(lab_thread);
    for (var j_6_turn: i32 = 0; j_6_turn < (m + 8191) / 8192; j_6_turn += 1) {
        if (32 * j_6_turn + j_6_thread < (m + 255) / 256) {
            t_7_parts =
                lab_max_f32(t_7_parts, m_2[((m + 255) / 256) * i_6 + 32 * j_6_turn + j_6_thread]);
        }
    }
    t_7 = lab_max_f32(t_7, lab_warp_max_f32(t_7_parts, 32));
    top = t_7;
    let j_7_thread: i32 = i32(lab_thread);
    for (var j_7_turn: i32 = 0; j_7_turn < (m + 8191) / 8192; j_7_turn += 1) {
        if (32 * j_7_turn + j_7_thread < (m + 255) / 256) {
            let v0: f32 = m_2[((m + 255) / 256) * i_6 + 32 * j_7_turn + j_7_thread] - top;
            c[((m + 255) / 256) * i_6 + 32 * j_7_turn + j_7_thread] = lab_exp2_f32(v0 * 1.442695f);
        }
    }
    var t_8: f32 = 0.0f;
    var t_8_parts: f32 = 0.0f;
    let j_8_thread: i32 = i32(lab_thread);
    for (var j_8_turn: i32 = 0; j_8_turn < (m + 8191) / 8192; j_8_turn += 1) {
        if (32 * j_8_turn + j_8_thread < (m + 255) / 256) {
            let v1: f32 = l[((m + 255) / 256) * i_6 + 32 * j_8_turn + j_8_thread];
            let v2: f32 = c[((m + 255) / 256) * i_6 + 32 * j_8_turn + j_8_thread];
            t_8_parts = lab_fma_f32(v1, v2, t_8_parts);
        }
    }
    t_8 += lab_warp_sum_f32(t_8_parts, 32);
    whole = t_8;
    lab_sync();
    if (lab_thread < 16u) {
        let o_3: i32 = i32(lab_thread);
        var t_9: f32 = 0.0f;
        for (var j_9: i32 = 0; j_9 < (m + 255) / 256; j_9 += 1) {
            let v3: f32 = a[16 * ((m + 255) / 256) * i_6 + 16 * j_9 + o_3];
            t_9 = lab_fma_f32(v3, c[((m + 255) / 256) * i_6 + j_9], t_9);
        }
        O[16 * i_6 + o_3] = lab_recip_f32(whole) * t_9;
    }
}
