"""C as WGSL: each line, by the types of its parts."""

import pytest

from luminal_lab.errors import DTypeError
from luminal_lab.kernels.prelude.prelude import prelude, signature_in
from luminal_lab.kernels.prelude.wgsl import Array, NeedsBitsError, Wgsl, statements
from tests.expect import error_of

LINES = {
    "float t = 0.0f;": ["var t: f32 = 0.0f;"],
    "const int j = lab_thread / 4;": ["let j: i32 = i32(lab_thread / 4u);"],
    "float parts[4];": ["var parts: array<f32, 4>;"],
    "lab_u32 a = 1, b = n;": ["var a: u32 = 1u;", "var b: u32 = u32(n);"],
    "for (int k = 0; k < n - 1; k++) {": ["for (var k: i32 = 0; k < n - 1; k += 1) {"],
    "if (i < n && 2 < i) {": ["if (i < n && 2 < i) {"],
    "f = -3.4028235e+38f;": ["f = -0x1.fffffep+127f;"],
    "x[4*i + 1] = f < 1.0f ? f : 1;": ["x[4 * i + 1] = select(1.0f, f, f < 1.0f);"],
    "x[i] += f * 2.0f - i;": ["x[i] += f * 2.0f - f32(i);"],
    "wrong |= v < 0 || v >= n;": [
        "wrong |= select(0, 1, lab_less_i64(v, lab_wide_i32(0)) || "
        "!lab_less_i64(v, lab_wide_i32(n)));"
    ],
    "x[8*v + i] = -f;": ["x[8 * i32(v.x) + i] = -f;"],
    "u = u << 3 | (lab_u32)i >> 1;": ["u = (u << 3u) | (u32(i) >> 1u);"],
    "f = f != f ? LAB_NAN : -LAB_INF;": [
        "f = select(-lab_infinity(), lab_no_number(), !lab_is_number(f));"
    ],
    "f = h[i];": ["f = f32(extractBits(h[u32(i) / 2u], 16u * (u32(i) % 2u), 16u));"],
    "i = (lab_i8)u;": ["i = extractBits(i32(u), 0u, 8u);"],
    "v = v * 3 - u;": ["v = lab_sub_64(lab_mul_64(v, lab_wide_i32(3)), lab_wide_u32(u));"],
    "lab_sync();": ["lab_sync();"],
    "*lab_fault = 1;": ["lab_fault[lab_numbers.lab_fault_at] = 1;"],
    "b[i] = f != 0.0f;": [
        "{",
        "    let lab_at = u32(i);",
        "    let lab_by = 8u * (lab_at % 4u);",
        "    let lab_bits = (u32(u32(select(0u, 1u, !(f == 0.0f)))) & 0xffu) << lab_by;",
        "    atomicAnd(&b[lab_at / 4u], ~(0xffu << lab_by));",
        "    atomicOr(&b[lab_at / 4u], lab_bits);",
        "}",
    ],
}


@pytest.mark.parametrize("line", LINES)
def test_a_line(line: str) -> None:
    made = Wgsl(lambda name: signature_in("webgpu", name))
    made.names |= {"f": "f32", "i": "i32", "n": "i32", "u": "u32", "v": "i64", "wrong": "i32"}
    made.names |= {"x": Array("f32", is_buffer=True, is_written=True), "h": Array("u16", True)}
    made.names |= {"b": Array("u8", True, True), "lab_fault": Array("i32", True, True)}
    assert made.line(line) == LINES[line]


def test_words_that_wgsl_keeps_are_renamed():
    made = Wgsl(lambda _: None)
    assert made.line("float var = 1.0f;") == ["var var_: f32 = 1.0f;"]
    assert made.line("var = var + 1.0f;") == ["var_ = var_ + 1.0f;"]


def test_arguments_that_are_set_are_copied():
    made = Wgsl(lambda _: None)
    text = "static inline int next(int x) {\n    x += 1; /* one more */\n    return x;\n}"
    assert made.paragraph(text) == (
        "fn next(x_in: i32) -> i32 {\n    var x: i32 = x_in;\n    x += 1;\n    return x;\n}"
    )


def test_statements_end_where_they_do_in_c():
    assert [*statements("for (int i = 0; i < 3; i++) { f(i); if (i) return; }")] == [
        "for (int i = 0; i < 3; i++) {",
        "f(i);",
        "if (i) return;",
        "}",
    ]


def test_what_is_called_comes_first_and_is_all_there():
    text = prelude("webgpu", {"lab_gelu_f32", "lab_block_sum_f32", "lab_cast_f32_f16"})
    assert "static" not in text
    assert text.index("fn lab_shuffle_xor_f32") < text.index("fn lab_warp_sum_f32")


def test_there_is_no_float64():
    error = error_of(lambda: prelude("webgpu", {"lab_exp2_f64"}), DTypeError)
    assert error.message == "webgpu: there is no float64 in WGSL, and a kernel calls lab_exp2_f64"


def test_16_bit_floats_where_they_are_a_type():
    made = Wgsl(lambda name: signature_in("webgpu", name), has_float16=True)
    made.names |= {"x": Array("f16", is_buffer=True), "O": Array("f16", is_buffer=True)}
    narrow, wide = "lab_cast_f32_f16", "lab_cast_f16_f32"
    assert made.line(f"O[0] = {narrow}({wide}(x[1]) * 2.0f);") == ["O[0] = x[1] * 2.0h;"]
    # 0.1 is no number of 16 bits, and a sum of a product would be rounded in between.
    assert made.line(f"O[0] = {narrow}({wide}(x[1]) * 0.1f);") == [
        "O[0] = lab_half(f32(x[1]) * 0.1f);"
    ]
    assert made.line(f"O[0] = {narrow}({wide}(x[1]) * 2.0f + 1.0f);") == [
        "O[0] = lab_half(f32(x[1]) * 2.0f + 1.0f);"
    ]
    made.line(f"const float v = {wide}(x[1]);")
    assert made.line(f"O[0] = {narrow}(v + 1.0f);") == ["O[0] = f16(v) + 1.0h;"]
    assert made.line("O[0] = x[3];") == ["O[0] = x[3];"]
    with pytest.raises(NeedsBitsError):
        made.line("lab_u16 y = x[0];")
