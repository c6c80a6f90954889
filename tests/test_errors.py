"""The tree of errors, its text, and the page that shows one example of each class."""

import ast
import linecache
import pickle
import re
import warnings
from pathlib import Path
from typing import NamedTuple

import pytest

import luminal_lab as ll
from luminal_lab import errors
from luminal_lab.core.op import OPS
from luminal_lab.errors import Interrupted, LabError, LabWarning, nearest
from tests.sources import trees

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "errors.md"
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CLASSES = {
    name: value
    for name, value in vars(errors).items()
    if isinstance(value, type) and issubclass(value, (LabError, LabWarning, Interrupted))
}


class Example(NamedTuple):
    """A wrong example with its message, and the right one; and where they stand on the page."""

    section: str
    number: int
    wrong: str
    message: str
    right: str


def sections():
    """Return the text of each section by its title."""
    parts = re.split(r"^## (\w+)\n", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def examples():
    for section, text in sections().items():
        blocks = [(match[1], match[2]) for match in BLOCK.finditer(text)]
        assert [kind for kind, _ in blocks] == ["python", "text", "python"] * (len(blocks) // 3)
        for number in range(0, len(blocks), 3):
            wrong, message, right = (block for _, block in blocks[number : number + 3])
            yield Example(section, number // 3, wrong, message, right)


def run(code):
    """Run an example as the file model.py."""
    linecache.cache["model.py"] = (len(code), None, code.splitlines(keepends=True), "model.py")
    exec(compile(code, "model.py", "exec"), {"ll": ll, "__name__": "model"})


@pytest.fixture(autouse=True)
def _ops_as_they_were():
    before = dict(OPS)
    yield
    OPS.clear()
    OPS.update(before)


def message_of(example):
    with warnings.catch_warnings(action="error"), pytest.raises(CLASSES[example.section]) as caught:
        run(example.wrong)
    if example.section != "LabError":
        assert type(caught.value) is CLASSES[example.section]
    return f"{type(caught.value).__name__}: {caught.value}\n"


def test_the_page_shows_what_happens(golden):
    page = PAGE.read_text(encoding="utf-8")
    for example in examples():
        before = f"```python\n{example.wrong}```\n\n```text\n"
        assert page.count(before) == 1
        page = page.replace(before + example.message, before + message_of(example))
    golden(page, "../docs/errors.md")


@pytest.mark.parametrize("example", list(examples()), ids=lambda e: f"{e.section}-{e.number}")
def test_what_the_page_calls_right_is_right(example):
    run(example.right)


def test_the_page_has_a_section_for_each_class_in_the_order_of_the_tree():
    assert list(sections()) == list(CLASSES)


def test_a_class_that_is_raised_has_an_example():
    assert not {*raised(CLASSES.keys() - {example.section for example in examples()})}


def raised(classes):
    """Yield the name of each of some classes that the package makes errors of."""
    for _, tree in trees(classes) if classes else ():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                yield from classes & {node.func.id}


def test_a_class_that_is_raised_is_found():
    assert {*raised({"ShapeError", "NothingError"})} == {"ShapeError"}


def test_the_docstring_draws_the_tree():
    doc = errors.__doc__
    assert doc is not None
    rows = re.findall(r"^[│├└─ ]*── (\w+) +\(([\w, ]+)\) +(\S.*)$", doc, re.MULTILINE)
    assert [name for name, _, _ in rows] == [
        n for n in CLASSES if n not in ("LabError", "LabWarning")
    ]
    for name, bases, _ in rows:
        found = {base.__name__ for base in CLASSES[name].__mro__}
        assert set(bases.split(", ")) <= found
    assert re.search(r"^│   ├── DimError", doc, re.MULTILINE)


@pytest.mark.parametrize("kind", [c for c in CLASSES.values() if c is not LabWarning])
def test_the_parts_of_an_error(kind):
    assert str(kind("what")) == "what"
    error = kind("what", where="line 1\nline 2", hint="do that")
    assert str(error) == "what\n  line 1\n  line 2\nhint: do that"
    assert (error.message, error.where, error.hint) == ("what", "line 1\nline 2", "do that")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (kind, str(error))
    assert kind.__doc__
    assert getattr(ll, kind.__name__) is kind


def test_an_error_does_not_repeat_what_may_be_a_whole_file():
    token = "\u202e" * 60_000
    with pytest.raises(errors.ParseError) as caught:
        ll.parse(f"graph g(%x: f32[{token}]) -> (%x) {{ }}")
    assert "[…]" in str(caught.value)
    assert str(caught.value).partition("\n")[0].endswith("' is not a dim")
    assert len(str(caught.value)) < 15_000  # each letter of it is spelled with six


def test_ctrl_c_is_no_error_that_a_handler_of_errors_could_take():
    assert issubclass(Interrupted, KeyboardInterrupt)
    assert not issubclass(Interrupted, (LabError, Exception))


def test_the_nearest_word():
    assert nearest("float23", ["float32", "int8"]) == "did you mean 'float32'?"
    assert nearest("something", ["float32", "int8"]) is None
    assert nearest("matmul_tanh", ["matmul_add", "matmul_mul_tanh"]) == (
        "did you mean 'matmul_mul_tanh'?"
    )
    assert nearest("x", []) is None


def test_a_notebook_shows_the_message_and_no_frames_of_ours():
    error = errors.ShapeError("matmul: 3 meets 4", where="cell 1, line 2:  a @ b", hint="transpose")
    error.add_note("in the module mlp")
    assert error._render_traceback_() == [
        "ShapeError: matmul: 3 meets 4\n  cell 1, line 2:  a @ b\nhint: transpose\n"
        "in the module mlp"
    ]


def test_a_notebook_shows_whole_what_is_behind_an_error_of_ours():
    def somebody_elses():
        raise KeyError("lost")

    try:
        try:
            somebody_elses()
        except KeyError as inner:
            raise errors.PassError("pass mine: it failed with KeyError") from inner
    except errors.PassError as error:
        (shown,) = error._render_traceback_()
    assert "in somebody_elses" in shown
    assert shown.endswith("KeyError: 'lost'\nPassError: pass mine: it failed with KeyError")


@pytest.mark.parametrize(
    ("written", "known", "near"),
    [
        ("sofmax", ["softmax", "slice"], "softmax"),
        ("Grpah", ["Graph"], "Graph"),
        ("ones_like", ["slice", "nonzero", "softmax"], None),
        ("full", ["rule", "dual"], None),
        ("zeros_like", ["parse_pipeline"], None),
        ("float16", ["f16", "f64"], "f16"),
        ("conv", ["conv2d", "cosine"], "conv2d"),
        ("modle.py", ["folder/model.py"], "folder/model.py"),
        ("csee", ["dce", "cse"], "cse"),
        ("x" * 300, ["x" * 299], None),
    ],
)
def test_a_hint_names_what_is_a_typing_error_away_or_nothing(written, known, near):
    assert nearest(written, known) == (None if near is None else f"did you mean {near!r}?")
