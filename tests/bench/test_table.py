"""The table: lines of a terminal, and what falls short of the goals."""

from luminal_lab.bench.rows import BenchRow
from luminal_lab.bench.table import HEADER, WIDTH, extras, foot, head, line, means, shortfalls
from tests.bench.test_rows import RATES, report, row


def test_a_line():
    made = row(NumPy=[2.0, 2.0, 2.0])
    made.minima = {"luminal_lab": 0.9, "NumPy": 1.8}
    assert [HEADER, line(made)] == [
        "workload              ours, ms     least      peer     least which         ratio least "
        "limit",
        "one                        1.1       0.9         2       1.8 NumPy          1.82  2.00   "
        "45%  ±18%",
    ]
    made.rounds["luminal_lab"] = [1.1, 1.1, 1.1]
    assert line(made).endswith("45%")


def test_minima_are_of_any_library():
    made = row(NumPy=[2.0, 2.0, 2.0], JAX=[2.1, 2.1, 2.1])
    assert made.least_ratio is None
    made.minima = {"luminal_lab": 1.0, "luminal_lab, any rows": 0.1, "NumPy": 1.9, "JAX": 1.5}
    assert made.least_ratio == 1.5


def test_a_line_of_what_failed():
    made = row(ours=(), NumPy=[2.0, 2.0, 2.0])
    made.failed.append("luminal_lab: " + "it did not work " * 8)
    text = [line(made), *extras(made)]
    assert text[0].split() == ["one", "-", "-", "2", "-", "NumPy", "-", "-", "-", "FAILED"]
    assert text[1].startswith("  ! luminal_lab: it did not work")
    assert text[2].startswith("    did not")
    assert max(map(len, text)) <= WIDTH


def test_other_forms_and_facts_stand_under_the_line():
    made = row()
    made.variants = {"any rows": 1.25}
    made.facts = {"bytes written": 12345}
    assert extras(made) == [
        "  any rows:                             1.25 ms",
        "  bytes written: 12,345",
    ]


def test_what_was_measured_under_load_says_so():
    made = row()
    made.tries, made.busy = 3, 1.3
    assert extras(made) == [
        "  the calmest of 3 tries, for the rounds of one were far apart",
        "  measured while other programs kept 1.3 cores busy",
    ]
    made.tries, made.busy = 1, 0.1
    assert extras(made) == []


def test_modelled_against_measured_is_a_line():
    made = row()
    made.modelled_ms = 0.44
    assert extras(made) == ["  modelled, our launches:              ~0.44 ms; measured is 2.50x"]
    made.ours_ms = None
    assert extras(made) == []


def test_every_line_fits_a_terminal():
    made = report(
        row("matmul-128x768x3072", ours=(123456.0, 234567.0, 345678.0), **{"torch.compile": [1.0]}),
        row("two", ours=()),
    )
    made.versions = {f"library {k}": "1.2.3+cpu" for k in range(9)}
    made.missing = {"JAX": "jax is not installed: pip install 'luminal-lab[bench]', " * 3}
    made.rows[1].failed.append("word " * 50)
    made.rows[1].unable = {"NumPy": "it cannot " * 20}
    text = "\n".join([head(made), *map(line, made.rows), *extras(made.rows[1]), foot(made)])
    assert max(map(len, text.splitlines())) <= WIDTH


def test_what_falls_short_says_by_how_much_and_what_limits_it():
    slow = row("softmax", NumPy=[1.0, 1.0, 1.0])
    assert [tuple(one) for one in shortfalls(report(slow))] == [
        (
            "softmax",
            "0.91 of NumPy, goal 0.95; 45% of the limit, goal 70% (limited by bytes from memory: "
            "0.5 ms at least; reached 4.5 GB/s; NumPy is at 50% of the limit)",
        )
    ]


def test_what_reaches_its_goals_does_not_fall_short():
    fast = row("softmax", ours=(0.6, 0.6, 0.6), NumPy=[0.6, 0.6, 0.6])
    assert shortfalls(report(fast)) == []
    assert "every line reaches its goals" in foot(report(fast))


def test_products_are_held_to_the_limit_when_they_are_large():
    for name, count in (("matmul-512", 0), ("matmul-1024", 1)):
        made = BenchRow(name, "", flops=10**9, rounds={"luminal_lab": [20.0]})
        made.conclude(RATES)
        found = shortfalls(report(made))
        assert len(found) == count
    assert found[0].reason == (
        "50% of the limit, goal 70% (limited by arithmetic: 10 ms at least; reached 50.0 GFLOP/s)"
    )


def test_compiling_has_a_goal_of_its_own():
    cold, cached = BenchRow("compile-cold", ""), BenchRow("compile-cached", "")
    for made, ms, goal in ((cold, 12_000.0, 10_000.0), (cached, 400.0, 500.0)):
        made.goals = {"ms": goal}
        made.rounds["luminal_lab"] = [ms]
        made.conclude(RATES)
    assert [tuple(one) for one in shortfalls(report(cold, cached))] == [
        ("compile-cold", "12 s, goal 10 s")
    ]


def test_a_row_may_have_goals_of_its_own_which_take_the_place_of_the_usual_ones():
    made = row("decode", NumPy=[1.0, 1.0, 1.0], **{"llama.cpp": [0.99, 0.99, 0.99]})
    made.facts = {"MB": 120.0}
    made.goals = {"llama.cpp": 0.85, "limit": 0.4, "ms": 2.0, "MB": 150.0, "absent": 9.0}
    assert shortfalls(report(made)) == []
    made.goals = {"llama.cpp": 0.95, "limit": 0.5, "ms": 0.3, "MB": 100.0}
    (short,) = shortfalls(report(made))
    assert short.reason.startswith(
        "0.90 of llama.cpp, goal 0.95; 45% of the limit, goal 50%; 1.1 ms, goal 0.3 ms; "
        "120 MB, goal 100 (limited by "
    )


def test_a_row_of_a_language_model_tells_of_tokens():
    made = row(PyTorch=[50.0, 50.0, 50.0])
    made.tokens = 1
    assert extras(made) == ["  tokens/s: ours 909, PyTorch 20"]
    made.ours_ms = None
    assert extras(made) == []


def test_what_was_left_out_for_want_of_time_is_listed():
    made = report(row("a"))
    made.left_out = ["b", "c"]
    assert "  there was no time for b, c\n" in foot(made)


def test_the_means_are_of_usual_sizes_of_others_and_of_those_with_room():
    near = row("a", ours=(1.0, 1.0, 1.0), NumPy=[0.5, 0.5, 0.5])  # at the limit
    far = row("b", ours=(1.0, 1.0, 1.0), NumPy=[2.0, 2.0, 2.0])
    odd, half = row("c", NumPy=[1.1, 1.1, 1.1]), row("d", NumPy=[4.4, 4.4, 4.4])
    odd.family, half.family = "odd sizes", "half precision"
    for made in (near, far, odd, half):
        made.minima = {"luminal_lab": 0.5, "NumPy": 0.5}
    assert means(report(near, far)) == [
        "geometric mean of the ratios, usual sizes, 2 lines: 1.00, of minima 1.00 (goal: 1.15)",
        "where the best peer is below 70% of the limit, 1 line: 2.00, of minima 1.00 (goal: 1.5)",
    ]
    assert means(report(near, odd, half))[1] == (
        "odd sizes, half precision, 2 lines: 2.00, of minima 1.00 (goal: 1.15)"
    )


def test_what_was_not_done_is_listed_once_with_its_reason():
    one, two, three = row("a"), row("b"), row("c")
    one.unable = two.unable = {"NumPy": "it cannot"}
    text = foot(report(one, two, three))
    assert "what was not done:\n  NumPy: it cannot (a, b)\n" in text
    assert "  NumPy: it cannot (everywhere)\n" in foot(report(one, two))
