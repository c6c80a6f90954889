"""Graphs as passes made them, on disk: found again exactly, or not at all."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab import nn
from luminal_lab.core.ir import IR
from luminal_lab.core.parse import parse
from luminal_lab.devices.build import cache, graphs
from luminal_lab.devices.build.graphs import GRAPHS
from luminal_lab.passes.kept import Made


def gpt(cx: ll.Graph) -> None:
    """Write a training step of a small GPT."""
    model = nn.models.GPT2(layers=2, heads=2, width=16, vocab=31, context=8)
    tokens, following = (cx.tensor(("batch", 8), "int64", name) for name in ("tokens", "after"))
    loss = nn.cross_entropy(model(tokens), following, axis=-1).retrieve()
    nn.AdamW(1e-3).minimise(loss)


def convolution(cx: ll.Graph) -> None:
    """Write a convolution with what stands around it."""
    y = nn.Conv2d(3, 4, 3, padding=1)(cx.tensor((1, 3, 8, 8), name="images")).relu()
    y.max_pool2d(2).mean((2, 3)).softmax(-1).named("y").retrieve()


def numbers(cx: ll.Graph) -> None:
    """Write numbers that are hard to spell."""
    x = cx.tensor((4,), name="x")
    for each in (1e-45, 0.1, -0.0, float("inf"), float("-inf"), float("nan"), 3.4028235e38):
        (x + each).retrieve()
    (x.cast("float64") + 1 / 3).retrieve()
    (x.cast("bfloat16") * 0.1).retrieve()
    (cx.tensor((4,), "int64", "n") + (1 << 62)).retrieve()


FUSION = "fuse-contractions, fuse-rows, fuse-elementwise"
MODELS = {"gpt": gpt, "convolution": convolution, "numbers": numbers}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    """A cache of each test's own."""
    monkeypatch.setattr(cache, "user_folder", lambda: tmp_path / "libraries")
    return tmp_path / "graphs"


def session(scale: float = 1.0) -> ll.Graph:
    """Return a session with a product and a norm, compiled and kept."""
    cx = ll.Graph("kept")
    with cx.scope("layer"):
        x = cx.tensor(("batch", 4), name="x").set(np.arange(8).reshape(2, 4) / 8)
        w = cx.tensor((4, 3), name="w").set(np.ones((4, 3)))
        ((x * 1).softmax(-1) @ w * scale).named("y").retrieve()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=1), keep=True)
    return cx


def is_kept(cx: ll.Graph) -> bool:
    """Return whether a session's graph was found, not made."""
    return cx.compilation._kept is not None


def records(ir: IR):
    """Return all that later compiles need of a graph."""
    return [(*node[:5], *node.meta[:3]) for node in ir.nodes], ir.signature, ir.name


def test_a_graph_is_found_as_it_was_made():
    first, second = session(), session()
    assert (is_kept(first), is_kept(second)) == (False, True)
    kept, made = second.compilation.ir, first.compilation.ir
    assert records(kept) == records(made)
    assert {node.meta.scope for node in kept if node.meta.origin} == {"layer"}
    assert [str(launch) for launch in second.launches] == [str(each) for each in first.launches]
    assert [launch.scope for launch in second.launches] == ["layer"] * len(second.launches)
    first.execute()
    second.execute()
    np.testing.assert_array_equal(first["y"].numpy(), second["y"].numpy())
    assert is_kept(second)
    assert [str(shot) for shot in second.snapshots] == [str(shot) for shot in first.snapshots]
    assert records(second.compilation.ir) == records(made)


def test_other_graphs_are_others(folder):
    session()
    session(2.0)
    assert not is_kept(session(3.0))
    assert len([*folder.iterdir()]) == 3


def test_ids_belong_to_the_key():
    """In a text named nodes have no ids, and data is set by ids."""

    def compiled(extra: int):
        cx = ll.Graph("kept")
        x = cx.tensor((2,), name="x").set([1, 2])
        for _ in range(extra):
            x.sin()
        y = (cx.tensor((2,), name="w").set([3, 4]) * 1 + x).named("y").retrieve()
        cx.compile("simplify, dce", keep=True)
        cx.execute()
        return y.numpy()

    for extra in (0, 3, 0, 3):
        np.testing.assert_array_equal(compiled(extra), [4, 6])


@pytest.mark.parametrize("name", ["graph.txt", "nodes.json", "entry.json"])
def test_a_damaged_entry_is_made_anew(folder, name):
    session()
    (entry,) = folder.iterdir()
    (entry / name).write_bytes(b"\x80damaged")
    assert not is_kept(session())
    assert is_kept(session())


@pytest.mark.parametrize(
    "change",
    [
        lambda facts: facts["nodes"].pop(),
        lambda facts: facts["nodes"][0].__setitem__(1, 1 << 40),
        lambda facts: facts.pop("schedule"),
        lambda facts: facts.update(nodes=3),
    ],
    ids=["fewer", "no such line", "no schedule", "no list"],
)
def test_facts_of_another_graph_are_not_used(folder, change):
    session()
    (entry,) = folder.iterdir()
    files, _ = cache.read_files(entry, ("graph.txt", "nodes.json"))
    facts = json.loads(files["nodes.json"])
    change(facts)
    cache.remove(entry)
    cache.write_files(entry, {**files, "nodes.json": json.dumps(facts).encode()}, {})
    assert not is_kept(session())


def test_an_entry_that_others_may_have_written_is_not_read(folder):
    session()
    folder.chmod(0o777)
    assert not is_kept(session())


def test_nothing_is_kept_while_the_package_changes(folder, monkeypatch):
    monkeypatch.setattr(graphs, "STAMP", "of other files")
    assert not is_kept(session())
    assert not is_kept(session())
    assert not folder.exists()


def test_a_text_that_is_read_as_another_graph_is_not_used(folder, monkeypatch):
    session()
    monkeypatch.setattr(graphs, "parse", lambda text: parse(text.replace("seq", "sew")))
    assert is_kept(session())
    monkeypatch.setattr(graphs, "parse", lambda text: parse(text.replace("batch", "match")))
    assert not is_kept(session())


def test_a_line_that_wrote_nothing_is_not_kept(folder):
    cx = ll.Graph("kept")
    (cx.tensor((2,), name="x") * 1).retrieve()
    other = ll.Graph("kept")
    (other.tensor((2,), name="x") * 1).retrieve()
    GRAPHS.keep(cx.ir, "nothing", Made(other.ir, frozenset()))
    assert not folder.exists()


@pytest.mark.parametrize("write", MODELS.values(), ids=MODELS)
def test_models_are_found_as_they_were_made(write):
    def compiled():
        cx = ll.Graph("kept")
        write(cx)
        cx.compile(f"generic, inline, cse, {FUSION}, dce", keep=True)
        return cx

    first, second = compiled(), compiled()
    assert is_kept(second)
    assert records(second.compilation.ir) == records(first.compilation.ir)


def test_a_full_disk_does_not_matter(monkeypatch):
    def write_files(*_):
        raise OSError(28, "no space left")

    monkeypatch.setattr(cache, "write_files", write_files)
    assert not is_kept(session())


def test_the_last_graph_of_another_process_is_found(folder, tmp_path):
    script = tmp_path / "other.py"
    script.write_text(
        "import luminal_lab as ll\n"
        "from pathlib import Path\n"
        "from luminal_lab.devices.build import cache\n"
        f"cache.user_folder = lambda: Path({str(folder.parent)!r}, 'libraries')\n"
        "cx = ll.Graph('kept')\n"
        "y = (cx.tensor((2, 3), name='x') * 1).softmax(-1).retrieve()\n"
        "cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=1), keep=True)\n"
        "print(cx.compilation._kept is not None, cx.compilation.ir)\n"
    )
    told = [
        subprocess.run([sys.executable, script], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert told[0].startswith("False")
    assert told[1] == told[0].replace("False", "True", 1)


def test_the_entry_says_what_it_is():
    session()
    (entry,) = ll.devices.cached("graphs")
    assert entry.about.startswith("graph kept(")
    assert ll.devices.cached("graphs").total.startswith("1 graph; ")


def test_a_made_graph_is_only_kept_if_it_can_be_read():
    cx = ll.Graph("kept")
    (cx.tensor((2,), name="x") * 1).retrieve()
    GRAPHS.keep(cx.ir, "nothing", Made(cx.ir, frozenset()))
    found = GRAPHS.find(cx.ir, "nothing")
    assert found is not None
    assert records(found.last) == records(cx.ir)
    assert GRAPHS.find(cx.ir, "something") is None
