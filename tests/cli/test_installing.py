"""What is to be typed to install something is right where it is typed."""

import sys

import pytest

from luminal_lab.cli import installing
from luminal_lab.cli.installing import typed
from tests.cli.asking import ROOT


@pytest.fixture(autouse=True)
def _posix(monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(sys, "executable", "/some where/.venv/bin/python")


def test_it_goes_into_the_python_that_runs_this(monkeypatch, tmp_path):
    assert typed("pip install ziglang") == "'/some where/.venv/bin/python' -m pip install ziglang"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", str(tmp_path / ".venv/bin/python"))
    assert typed("pip install ziglang") == ".venv/bin/python -m pip install ziglang"


def test_in_a_checkout_our_package_is_the_checkout_s(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "executable", "/env/bin/python")
    monkeypatch.chdir(ROOT)
    asked = 'pip install "luminal-lab[cuda]"'
    assert typed(asked) == "/env/bin/python -m pip install -e '.[cuda]'"
    monkeypatch.chdir(tmp_path)
    assert typed(asked) == f"/env/bin/python -m pip install -e '{ROOT}[cuda]'"


def test_where_it_is_installed_our_package_is_the_index_s(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "executable", "/env/bin/python")
    monkeypatch.setattr(installing.luminal_lab, "__file__", str(tmp_path / "lib/luminal_lab/a.py"))
    assert typed('pip install "luminal-lab[lab]"') == (
        "/env/bin/python -m pip install 'luminal-lab[lab]'"
    )


def test_on_windows_it_is_quoted_as_there(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    assert typed("pip install ziglang") == '"/some where/.venv/bin/python" -m pip install ziglang'


def test_what_is_no_pip_stays_as_it_is():
    assert typed("make frontend") == "make frontend"
    assert typed("") == ""
