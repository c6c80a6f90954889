"""`luminal-lab doctor`: what works here, what mends the rest, and its exit status."""

import json
import warnings

import pytest

from luminal_lab.cli import checks, doctor
from luminal_lab.cli.checks import CheckResult, DoctorCheck
from luminal_lab.errors import DeviceError, LabWarning
from tests.cli.asking import ask


def fails() -> CheckResult:
    raise DeviceError("gcc: it is broken\n  more", hint="pip install ziglang; or not")


def breaks() -> CheckResult:
    raise ImportError("no such symbol")


GOOD = DoctorCheck("python", lambda: CheckResult("works", "3.11"), is_basic=True)
BAD = DoctorCheck("compiler", fails)
ABSENT = DoctorCheck("metal", lambda: CheckResult("none", "is on Macs"))


def test_here_the_basics_work(capsys, monkeypatch):
    quick = [one for one in checks.CHECKS if one.look not in (checks.compiler, checks.ptx)]
    monkeypatch.setattr(doctor, "CHECKS", quick)
    status, out, err = ask(capsys, "doctor", "--json")
    found = json.loads(out)
    assert (status, err, found["well"], found["format"]) == (0, "", True, 1)
    assert [one["name"] for one in found["checks"]] == [one.name for one in quick]
    states = {one["name"]: one["state"] for one in found["checks"]}
    assert states["interpreter"] == "works"
    assert set(states.values()) <= {"works", "missing", "none"}, found


def test_what_is_missing_is_told_with_what_mends_it(capsys, monkeypatch):
    monkeypatch.setattr("sys.executable", "/env/bin/python")
    monkeypatch.setattr(doctor, "CHECKS", (GOOD, BAD, ABSENT))
    status, out, _ = ask(capsys, "doctor")
    assert status == 0
    assert out.partition("\n\n")[2] == (
        "  works     python    3.11\n"
        "  fails     compiler  gcc: it is broken\n"
        "                      to fix it: /env/bin/python -m pip install ziglang\n"
        "  not here  metal     is on Macs\n"
        "\n"
        "The basics work. Could be better: compiler.\n"
    )


def test_without_the_basics_it_fails(capsys, monkeypatch):
    monkeypatch.setattr(doctor, "CHECKS", (DoctorCheck("packages", breaks, is_basic=True), ABSENT))
    status, out, _ = ask(capsys, "doctor")
    assert status == 1
    assert "fails     packages  ImportError: no such symbol\n" in out
    assert out.endswith("luminal_lab does not work here: packages\n")


def test_colours_are_for_terminals():
    found = {GOOD: GOOD.result()}
    assert "\033" not in "".join(doctor.lines(found, is_coloured=False))
    assert "\033[32mworks   \033[0m" in "".join(doctor.lines(found, is_coloured=True))


def test_without_a_compiler_it_says_which_to_install(monkeypatch):
    def none() -> None:
        raise DeviceError("compiler: none")

    monkeypatch.setattr(checks.toolchain, "find_compiler", none)
    monkeypatch.setattr(checks.toolchain, "find_cpp_compiler", none)
    assert checks.compiler().mend == checks.emulator().mend == "pip install ziglang"


@pytest.mark.parametrize(
    ("look", "extra"),
    [
        (checks.jupyter, "lab"),
        (checks.widgets, "lab"),
        (checks.tables, "lab"),
        (checks.models, "lm"),
        (checks.onnx, "onnx"),
        (checks.serve, "serve"),
    ],
)
def test_without_packages_it_says_which_extra_has_them(monkeypatch, look, extra):
    monkeypatch.setattr(checks, "find_spec", lambda name: None)
    found = look()
    assert (found.state, found.mend) == ("missing", f'pip install "luminal-lab[{extra}]"')


def test_without_zig_it_says_what_is_lacking(monkeypatch):
    monkeypatch.setattr(checks, "find_spec", lambda name: None)
    without = "ziglang not installed: no exports for other machines, and no pages that compute"
    assert checks.zig() == CheckResult("missing", without, "pip install ziglang")


def test_without_the_built_script_it_says_how_to_build_it(monkeypatch):
    monkeypatch.setattr(checks, "find_spec", lambda name: True)
    monkeypatch.setattr(checks, "script", fails)
    found = checks.widgets()
    assert (found.state, found.mend) == ("missing", "make frontend")


def test_a_wrong_result_is_a_failure(monkeypatch):
    monkeypatch.setattr(checks, "_fault_of", lambda device: "a softmax is off by 2")
    assert checks.interpreter() == CheckResult("fails", "a softmax is off by 2")


def test_what_has_a_row_is_no_warning_as_well(capsys, monkeypatch):
    def warns() -> CheckResult:
        warnings.warn("kept elsewhere", LabWarning, stacklevel=1)
        return CheckResult("missing", "read-only: kept elsewhere")

    monkeypatch.setattr(doctor, "CHECKS", (GOOD, DoctorCheck("cache", warns)))
    assert ask(capsys, "doctor")[0] == 0  # here a warning is an error
