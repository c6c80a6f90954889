"""Hold how claims become a verdict."""

from luminal_lab.course.exercise import Verdict, error_text, is_open
from luminal_lab.errors import DeviceError, ShapeError


def test_all_claims_make_a_verdict():
    verdict = Verdict.all(("it is one", True, "x"), ("it is two", True))
    assert verdict == Verdict(True, ("right: it is one", "right: it is two"))


def test_a_fault_is_told_behind_its_claim_with_the_first_hint():
    verdict = Verdict.all(("a", "it is 3", "look"), ("b", False, "listen"))
    assert verdict == Verdict(False, ("not yet: a", "  it is 3", "not yet: b"), "look")


def test_a_claim_without_a_fault_holds():
    assert Verdict.all(("a", ""), ("b", lambda: "")).right


def test_a_function_is_called_only_if_all_before_it_holds():
    called: list[int] = []
    verdict = Verdict.all(("a", False), ("b", lambda: called.append(1) or True))
    assert (verdict.said, called) == (("not yet: a",), [])


def test_an_error_in_a_claim_is_a_sentence():
    verdict = Verdict.all(("a", lambda: 1 // 0 == 1, "divide by more"))
    assert verdict.said == (
        "not yet: a",
        "  the check could not run: ZeroDivisionError: integer division or modulo by zero",
    )
    assert verdict.hint == "divide by more"


def test_only_dots_and_none_are_open():
    class Same:
        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 0

    assert is_open(...)
    assert is_open(None)
    assert not any(map(is_open, (0, "", [], Same())))


def test_errors_are_told_in_a_line():
    class SilentError(Exception):
        def __str__(self) -> str:
            raise ValueError

    assert error_text(ShapeError("a: b", hint="c")) == "ShapeError: a: b (c)"
    assert error_text(ValueError("one\ntwo")) == "ValueError: one two"
    assert error_text(KeyboardInterrupt()) == "KeyboardInterrupt"
    assert error_text(SilentError()) == "SilentError"
    assert len(error_text(ValueError("x" * 1000))) < 220


def test_of_what_a_compiler_says_the_error_is_told():
    said = ["emulator: cc (some system, with a long name) made no library, and ended with status 1"]
    said += ["  the kernel: In function turned:", "  the kernel:3: warning: " + "w" * 200]
    said += ["  the kernel:3:51: error: expected ; before y"]
    assert error_text(DeviceError("\n".join(said), hint="fix the marked line")) == (
        f"DeviceError: {said[0]}: {said[3].strip()}"
    )
