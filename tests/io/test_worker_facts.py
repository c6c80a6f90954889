"""What is known of workers as facts: cuts, what is sent and why, lanes; what a page may hold."""

import json
from dataclasses import replace

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.io.facts import Facts
from luminal_lab.io.gather import facts_of
from luminal_lab.io.worker_facts import WorkerFacts
from luminal_lab.workers.lanes import Lanes, Sent as Letter, Work
from tests.workers.test_pipelined import layers, stages


def megatron() -> tuple[ll.Graph, dict[str, tuple[str | None, ...]]]:
    """Return two layers, and how Megatron cuts them."""
    cx = ll.Graph("mlp")
    x, w1 = cx.tensor((8, 16), name="x"), cx.tensor((16, 32), name="w1")
    w2 = cx.tensor((32, 4), name="w2")
    for tensor, shape in ((x, (8, 16)), (w1, (16, 32)), (w2, (32, 4))):
        tensor.set(np.full(shape, 0.5, "float32"))
    ((x @ w1).relu() @ w2).named("y").retrieve()
    return cx, {"w1": (None, "model"), "w2": ("model", None)}


def spread(facts: Facts) -> WorkerFacts:
    assert facts.workers is not None
    return facts.workers


def test_cuts_and_what_is_sent_of_a_mesh_and_the_same_from_a_file(tmp_path) -> None:
    cx, cut = megatron()
    compiled = cx.compile(ll.Sharded(ll.sharding(ll.Mesh(model=2), cut)))
    facts = spread(facts_of(compiled))
    assert facts.axes == (("model", 2),)
    assert facts.lanes is None
    (sent,) = facts.sent
    assert (sent.op, sent.axis, sent.bytes) == ("all_reduce", "model", 128)
    assert sent.why.endswith("which is cut")
    assert compiled.ir[sent.node].op.name == "reshard"
    assert facts.bytes == 128
    assert {id for ids in facts.cuts.values() for id in ids} == {node.id for node in compiled.ir}
    w1 = next(node for node in compiled.ir.inputs if node.name == "w1")
    assert w1.id in facts.cuts["-, model"]
    assert [(p.name, p.words, p.annotated) for p in facts.placed] == [
        ("x", ("-", "-"), False),
        ("w1", ("-", "model"), True),
        ("w2", ("model", "-"), True),
    ]
    cx.execute()
    assert spread(facts_of(compiled)).lanes is not None
    cx.save(tmp_path / "run.lab")
    assert spread(ll.open(tmp_path / "run.lab").facts) == spread(facts_of(compiled))
    assert facts_of(cx.compile("simplify")).workers is None


def test_stages_of_a_pipeline_and_what_goes_from_one_to_the_next() -> None:
    cx, _ = layers(2, trains=False)
    compiled = cx.compile(ll.Pipelined({"layer0": 0, "layer1": 1}, batch="x", microbatches=2))
    facts = spread(facts_of(compiled))
    assert facts.axes == (("stage", 2),)
    assert {*facts.cuts} == {"stage 0", "stage 1"}
    assert [(s.op, s.axis, s.bytes) for s in facts.sent] == [("send", "0 → 1", 8 * 8 * 4)]
    assert facts.sent[0].why.endswith("is in stage 1")
    cx.execute()
    lanes = spread(facts_of(compiled)).lanes
    assert lanes is not None
    assert (lanes.workers, lanes.microbatches) == (2, 2)
    assert stages(2, 2)["layer1"] == 1


@pytest.mark.parametrize(
    ("lanes", "told"),
    [
        (Lanes(2, 1, (Work(2, "forward", 0, 0.0, 1.0),), ()), "has 2, and there are 2"),
        (Lanes(1, 1, (Work(0, "forward", 0, 1.0, 0.0),), ()), "from 1.0 s to 0.0 s"),
        (Lanes(10**9, 1, (), ()), "has 1000000000 workers"),
        (Lanes(1, 1, (), (Letter(0, 3, "%x", 4, 0.0, 1.0),)), "has 3, and there are 1"),
    ],
)
def test_lanes_that_cannot_be_are_refused(lanes: Lanes, told: str) -> None:
    given = json.loads(json.dumps(Facts(workers=WorkerFacts((("data", 2),))).to_json()))
    assert Facts.from_json(given).workers == WorkerFacts((("data", 2),))
    bad = Facts(workers=replace(WorkerFacts((("data", 2),)), lanes=lanes))
    with pytest.raises(ValueError, match=told):
        Facts.from_json(json.loads(json.dumps(bad.to_json())))
