"""A graph whose every text wants to be a script: ops, names, scopes, lines, rules, kernels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from luminal_lab.core.dtypes import DType
from luminal_lab.core.edit import LogEntry
from luminal_lab.core.ir import IR, Derivation, Meta, Node, Table
from luminal_lab.core.op import OPS, TensorType, Unary
from luminal_lab.core.ops import Input
from luminal_lab.core.origin import Origin
from luminal_lab.io.derivation_facts import RuleStep, ScheduleStep
from luminal_lab.io.facts import (
    BufferFacts,
    CellText,
    DeviceRoof,
    Facts,
    KernelFacts,
    LaunchFacts,
    Line,
    MemoryFacts,
    RuleFacts,
    Sketch,
    SketchNode,
    SourceFacts,
    Subject,
    TimeFacts,
    TimeRow,
)
from luminal_lab.passes.snapshot import Record, Snapshot

MARKUP = (
    "</script><script>window.hit=1;alert(1)</script>",
    '<img src=x onerror="window.hit=1;alert(2)">',
    "<!--<script>",
    "]]><svg onload=window.hit=1>",
    "\"'><iframe srcdoc='<script>parent.hit=1</script>'>",
    "javascript:window.hit=1//",
    "</title></pre></noscript><script>window.hit=1</script>",
    "{title}{0}%s${window.hit=1}`",
    "\u202e\u2028\u2029\x00\ud800",
)


def evil(number: int) -> str:
    """Return a text that wants to be a script, each another."""
    return f"{MARKUP[number % len(MARKUP)]} {number}"


def evil_op(text: str) -> Unary:
    """Return an op with a name that no check has seen."""
    known = dict(OPS)

    @dataclass(frozen=True)
    class Sneaky(Unary):
        """Be called anything."""

        name: ClassVar[str] = "sneaky"

    Sneaky.name = text
    OPS.clear()
    OPS.update(known)
    return Sneaky()


def hostile_subject() -> Subject:
    """Return a compile of it, which nothing has made."""
    type = TensorType(DType.float32, (2, 3))
    table = Table()
    x = Node(0, Input(DType.float32, (2, 3)), (), type, (), meta(0))
    table.set(0, x)
    for id in range(1, 9):
        made = Derivation(evil(id + 3), (id - 1,))
        table.set(
            id, Node(id, evil_op(evil(id)), (id - 1,), type, (), meta(id)._replace(derivation=made))
        )
    before = IR(table, [0], [8], name=evil(5))
    after_table = table.copy()
    last = table.get(8)
    assert last is not None
    changed = last._replace(sources=(6,))
    after_table.set(8, changed)
    after = IR(after_table, [0], [8], name=evil(5))
    signatures = before.signature, after.signature
    log = [LogEntry("replace", evil(1), 7, 6, (last,), (changed,), signatures, 1, evil(2))]
    snapshots = (
        Snapshot(before, before, Record(evil(3), ())),
        Snapshot(before, after, Record(evil(4) + evil(8), log), 1),
    )
    return Subject(evil(0) + evil(6), snapshots, facts(), evil(6))


def meta(number: int) -> Meta:
    """Return a name, a line and a scope that are scripts."""
    scope = "" if number % 3 == 0 else evil(number % 2)
    return Meta(evil(number), Origin(evil(number + 1), number + 1, evil(number + 2)), scope)


def facts() -> Facts:
    """Return kernels, rules, times and cells that are scripts."""
    sketch = Sketch((SketchNode(evil(0)), SketchNode(evil(1), (0,))), 1)
    sources = tuple(
        SourceFacts(one, evil(k), "\n".join(map(evil, range(8))), ((1, (8,)),), {evil(k): 3})
        for k, one in enumerate(("c", "cuda", "metal"))
    )
    kernel = KernelFacts(
        evil(1),
        evil(2),
        (RuleStep(evil(3), evil(4), evil(5)),),
        evil(6),
        (ScheduleStep(evil(7), evil(0)),),
        definition=evil(2),
        nest=evil(3),
        schedule=evil(4),
        flops=10,
        bytes=20,
        reason=evil(5),
    )
    return Facts(
        kernels=(replace(kernel, sources=sources),),
        launches=(
            LaunchFacts(0, evil(2), 8, (8,), (6,), (8,), (Line(evil(0), 1, evil(1)),), (0,)),
        ),
        buffers=(BufferFacts(evil(3), "arena", 0, 24, 0, 0, (8,)),),
        memory=MemoryFacts(48, 24),
        rules={
            evil(1): RuleFacts(evil(2), evil(3), evil(4), 1, evil(5), (evil(6),), sketch, sketch)
        },
        times=(TimeFacts(evil(4), "measured", evil(5), evil(6), (TimeRow(0, 1e-3, 9e-4, 2e-3),)),),
        roofline=(DeviceRoof(evil(4), 1e12, 1e11, evil(7)),),
        cells=(CellText(evil(0), "\n".join(map(evil, range(8)))),),
        environment={evil(0): evil(1)},
        python=evil(2),
    )
