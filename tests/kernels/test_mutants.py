"""Kernels with one thing wrong: the check of values catches each, but for those that are right."""

import random
import re
from collections import Counter
from functools import cache
from typing import NamedTuple

import pytest

from tests.kernels.mutated import PROGRAMS, Judge
from tests.kernels.mutating import KINDS, Mutant, functions, mutants, tokens

PARTS = 12
"""In how many parts the mutants of a program are tried; a share tries one mutant of some."""


class Right(NamedTuple):
    """Mutants that compute what their graph says all the same."""

    why: str
    kind: str
    line: str = ""
    change: str = ""
    program: str = ""

    def is_for(self, program: str, mutant: Mutant) -> bool:
        """Return whether a mutant is one of these; all that is given must be found."""
        return (
            re.fullmatch(self.kind, mutant.kind) is not None
            and re.fullmatch(self.program or ".*", program) is not None
            and re.search(self.line, mutant.line) is not None
            and re.search(self.change, mutant.change) is not None
        )


SAME = "both numbers are the same where they are equal"
BITS = "bits are the same with a sign and without, and whoever compares them gives the sign back"
SMALL = "a task, an index or a size is below 128 here"
FIRST = "there is one task here, which is 0"
BEFORE = "the condition before it says as much"
EQUIVALENT = [
    Right("it is less than what another order of rounding explains", "last place"),
    Right("a difference is squared, whose sign is none of it", "operands", r"v0 = .* - s;$"),
    Right(SMALL, "narrower", r"= lab_task;|lab_task \* \d+;|\(lab_task \+ 1\)|lab_whole = \d"),
    Right(SMALL, "narrower", r"lab_i64 v\d+ = \d{1,2};"),
    Right(SMALL, "narrower", r"v0 = b\[", program="gather_scatter"),
    Right(SMALL, "narrower", r"m = lab_dims", program="symbolic"),
    Right(SMALL, "narrower", r"lab_i64 t\[", program="argmax"),
    Right(SMALL, "narrower", r"lab_cast_f32_bool", program="casts"),
    Right("an index is below 2 to the 31 here", "dropped cast", "lab_cast_i64_i32"),
    Right("C converts it as well", "dropped cast", "lab_cast_(bool_i64|i32_i64|i64_f32|f32_f64)"),
    Right(SAME, "comparison", r"if \((\w+) [<>] (\w+)\) \1 = \2;"),
    Right(SAME, "comparison", r"(lab_first \+ \d+) < (lab_\w+) \? (\1|\d+) : \2"),
    Right(SAME, "comparison", r"v0 < v1 \? v1 : v0", program="whole_numbers"),
    Right("a maximum has no order", "buffers", "less_than_where_max", program="whole_numbers"),
    Right("a copy of no bytes copies nothing", "comparison", "lab_size > 0", "> → >="),
    Right("buffers may be named in any order", "order", r"= lab_buffers\[\d\];$"),
    Right("index 0 is exchanged for 0", "comparison", r"< 0 \|\| .* \? 0 :", "< → <="),
    Right("whether a number is NaN: no square is below 0", "comparison|constant", r"-1\.0f < "),
    Right("a fault is any number but 0", "whole number", r"lab_fault = 1;", "1 → 2"),
    Right("no position is below 0", "arithmetic|operands", "-9223372036854775807LL - 1"),
    Right("the least number is its own negative", "arithmetic", "-2147483648U?LL"),
    Right("the last counts 0, as none does", "shorter loop", "j < 4;|j_2 < 11;", "", "argmax"),
    Right(
        "the least is NaN where an element is, so that this is never true",
        "sign",
        r"-1\.0f < v1",
        "",
        "argmax",
    ),
    Right(BITS, "unsigned", r"lab_i64 \*(restrict )?(O|index|b) = lab_buffers"),
    Right(BITS, "unsigned", r"lab_i32 \*restrict (a|O) = lab_buffers", "", "casts|whole_numbers"),
    Right(FIRST, "one task", r"", program="convolution|update"),
    Right(FIRST, "one task|whole number", r"t = lab_task;|65536\*t \+ e", "", "gather_scatter"),
    Right(
        "a kernel may write what is its own, and reads it no more",
        "written input",
        change=r"float \*\)(padded|t_parts|keys)\)",
    ),
    Right(
        BEFORE,
        "comparison|min and max|no tail|arithmetic",
        r"(&&|if \() ?\w+_tile < \(lab_min\(.*\) \+ \d+\) / \d+",
        program="attention",
    ),
    Right(BEFORE, "comparison|unguarded|whole number", r": \(1 < j.* \? a\[", program="views"),
    Right(
        "a place in a tile is below its size", "no tail", r"keys_j_own < lab_min", "", "attention"
    ),
    Right(
        "tiles of the next task are computed twice, to the same values",
        "no tail|min and max",
        r"i_tile < lab_min\(\(n \+ 5\) / 6",
        program="symbolic",
    ),
    Right(
        "sums that are not stored begin with 0, too",
        "no tail",
        r"j_start_own < lab_min",
        "",
        "matmul",
    ),
    Right(
        "a block behind the last is empty", "longer loop", r"j_block < 2; j_block\+\+", "", "matmul"
    ),
    Right("the next row is written afterwards", "longer loop", r"j < 7; j\+\+", "", "views"),
    Right("both have as many fours", "whole number", change="6553 → 6554", program="parts"),
    Right("0 - 0 is 0, too", "arithmetic", r"= 0\.0f \+ 0\.0f;", program="views"),
    Right("- i - 7 is - 7 - i", "operands", r"- i - 7\]", "i - 7 → 7 - i", "views"),
    Right("what is too large is infinite, below all", "constant", "= -3.4028235", "", "attention"),
    Right("a row behind the last is not stored", "uninitialised", "v0 = 0;", "", "attention"),
    Right("a key behind the last is not weighed", "constant", r"_own\] = 0\.0f;", "", "attention"),
]
"""The mutants that are right, with the reason."""


pytestmark = pytest.mark.needs("cc")


@cache
def judge_of(program: str) -> Judge:
    """Return the judge of a program's mutants, which finds nothing wrong with the program."""
    judge = Judge(program)
    assert judge.verdict(judge.program.source) is None
    return judge


@pytest.mark.share("program, part", [(p, k) for p in PROGRAMS for k in range(PARTS)], 25)
def test_mutants_are_caught(program: str, part: int, long: bool, seed: int):
    judge = judge_of(program)
    whole = [mutant for found in judge.mutants.values() for mutant in found]
    chosen = whole[part::PARTS]
    for mutant in chosen if long else random.Random(f"{seed} {program} {part}").sample(chosen, 1):
        if not any(one.is_for(program, mutant) for one in EQUIVALENT):
            assert judge.verdict(mutant.source) is not None, mutant.name


# -- the mutants themselves ------------------------------------------------------------------------

SOURCE = """
// kernel f(a: f32[8]) -> (O: f32[8])   a < b
static void kernel_f(LAB_GIVEN) {
    const float *restrict a = lab_buffers[0];
    float *restrict O = lab_buffers[1];
    float t = -LAB_INF;
#pragma omp simd reduction(+:t)
    for (lab_i64 i = 0; i < 8; i++) {
        t = lab_max_f32(t, a[i]);
    }
    if (lab_task < 3) O[2*lab_task + 1] = FMA(t, t, "a < b"[0] - 0x1p-3f);
}
"""


def test_words_are_those_of_c():
    text = '/* a */ x<<=0x1.8p3f; y = "a\\"b<c"; // z\n#define A(b) \\\n b < c\nw--'
    words = [token.text for token in tokens(text)]
    assert words == ["x", "<<=", "0x1.8p3f", ";", "y", "=", '"a\\"b<c"', ";", "w", "--"]
    assert [text[token.at : token.end] for token in tokens(text)] == words


def test_a_function_has_its_loops_subscripts_and_statements():
    (function,) = functions(SOURCE, lambda name: name == "kernel_f")
    texts = [token.text for token in function.tokens]
    assert [texts[first] + texts[last] for first, *_, last in function.loops] == ["()"]
    elements = [texts[first - 1] for first, _ in function.subscripts]
    assert elements == ["lab_buffers", "lab_buffers", "a", "O", '"a < b"'][: len(elements)]
    assert [texts[first] for first, _ in function.statements()][-2:] == ["t", "O"]


CHANGED = {
    "comparison": ["if (lab_task <= 3) O"],
    "longer loop": ["i < 8 + 1; i++"],
    "shorter loop": ["i < 8 - 1; i++"],
    "later loop": ["i = 0 + 1; i < 8"],
    "earlier loop": ["i = 0 - 1; i < 8"],
    "sparser loop": ["i < 8; i += 2)"],
    "sign": ["-(-LAB_INF)"],
    "finite": ["-3e4f"],
    "fused": ["FMA(t, t,-("],
    "next read": ["a[(i) + 1]"],
    "previous store": ["O[(2*lab_task + 1) - 1] ="],
    "far store": ["O[(2*lab_task + 1) + 1000003] ="],
    "unguarded": ["if (1) O"],
    "uninitialised": ["float t ;"],
    "min and max": ["((t) < ( a[i]) ? (t) : ( a[i]))"],
    "one task": ["if (0 * lab_task < 3)", "O[2*0 * lab_task + 1]"],
    "written input": ["((float *)a)[0] = 1;"],
}


@pytest.mark.parametrize("kind", CHANGED)
def test_a_mutant_differs_in_one_thing(kind: str):
    found = [one for one in mutants(SOURCE, lambda name: name == "kernel_f") if one.kind == kind]
    assert len(found) == len(CHANGED[kind])
    for one, text in zip(sorted(found, key=_place), CHANGED[kind], strict=True):
        assert text in one.source
        assert text not in SOURCE
        # What is no code stays as it is.
        assert "// kernel f(a: f32[8]) -> (O: f32[8])   a < b" in one.source
        assert "#pragma omp simd reduction(+:t)" in one.source
        assert '"a < b"[0]' in one.source


def _place(mutant: Mutant) -> int:
    pairs = zip(mutant.source, SOURCE, strict=False)
    return next(at for at, (one, other) in enumerate(pairs) if one != other)


def test_what_is_between_words_of_c_is_none():
    words = tokens("a[i] += 1.5e-3f; // b")
    assert [word.text for word in words] == ["a", "[", "i", "]", "+=", "1.5e-3f", ";"]


def test_programs_have_mutants_of_all_kinds():
    counts = Counter[str]()
    for program in PROGRAMS:
        counts.update({kind: len(found) for kind, found in judge_of(program).mutants.items()})
    assert counts.total() > 800
    # C has fused multiply-adds where sums of products are contracted by name.
    assert {*counts} >= {*KINDS} - {"fused", "bits"}
