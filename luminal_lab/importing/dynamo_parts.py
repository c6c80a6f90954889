"""Where a graph of dynamo's is from: which part of which function, and why it ends where it does.

    class Net:                          # part 1 of 2 of Net.forward: dynamo ends it,
        def forward(self, x):           # since it does not trace print
            h = self.first(x)
            print("half way")
            return self.second(h)       # part 2 of 2

Dynamo makes a function of what is left after a break, which it compiles when it runs. All parts in
use are known here by the author's function, so that each can say how many there are.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from importlib import import_module
from types import CodeType
from typing import Any, Final, NamedTuple
from weakref import WeakSet

from typing_extensions import override

from luminal_lab.core.origin import Origin, line_at
from luminal_lab.importing.torch_sizes import Torch
from luminal_lab.importing.torch_steps import OF_TORCH

PLAIN: Final = tuple(
    (re.compile(pattern, re.DOTALL), words)
    for pattern, words in (
        (r"generic_jump|Data-dependent branching", "the values of a tensor decide how it goes on"),
        (r"Tensor\.item\(\)", "the value of a tensor is read as a number"),
        (r"tolist\(\)", "the values of a tensor are read as numbers"),
        (
            r"Dynamic shape operator.*?`aten\._?(\w+)",
            r"the values of a tensor decide the shape of what \1 returns",
        ),
        (r"_dynamo\.graph_break\(\)", "torch._dynamo.graph_break() asks for it"),
        (r"builtin operator `([\w.]+)`", r"dynamo does not trace \1"),
        (r"the builtin `([\w.]+?)\.?`", r"dynamo does not trace \1"),
        (r"the function `([\w.]+)` in file", r"dynamo does not trace \1"),
        (r"method: <Logger .*?>\.(\w+)", r"dynamo does not trace logging's \1"),
    )
)
"""How dynamo says why it breaks off, and the same in plain words."""
DETAILS: Final = re.compile(r"\n\s*(Hint|Developer debug context|For more details)\b.*", re.DOTALL)
RESUMED: Final = re.compile(r"torch_dynamo_resume_in_(\w+)_at_\d+")
_NUMBERS = itertools.count()
_PARTS: dict[tuple[str, str], WeakSet[Part]] = {}
"""The parts in use, by the file and the name of the author's function."""


class GraphBreak(NamedTuple):
    """Why dynamo ended a graph before the author's function did.

    >>> print(GraphBreak("dynamo does not trace print", None))
    dynamo does not trace print
    """

    reason: str
    origin: Origin | None

    @override
    def __str__(self) -> str:
        return self.reason if self.origin is None else f"{self.reason}\n  {self.origin}"


def plain_reason(text: str) -> str:
    """Return dynamo's reason in plain words.

    >>> plain_reason("generic_jump TensorVariable()")
    'the values of a tensor decide how it goes on'
    >>> plain_reason("Unsupported method call\\n  Explanation: It is unknown.\\n  Hint: None.")
    'dynamo says: Unsupported method call. It is unknown.'
    """
    for pattern, words in PLAIN:
        found = pattern.search(text)
        if found is not None:
            return found.expand(words)
    kept = DETAILS.sub("", text).replace("\n  Explanation:", ".")
    return f"dynamo says: {' '.join(kept.split())}"


def ended_by(module: Torch) -> GraphBreak | None:
    """Return why dynamo broke off after a graph, if it did."""
    reason = getattr(module, "compile_subgraph_reason", None)
    if reason is None or not reason.graph_break:
        return None
    frames = [*reason.user_stack]
    own = [frame for frame in frames if not OF_TORCH.search(frame.filename)] or frames
    origin = line_at(own[-1].filename, own[-1].lineno) if own else None
    return GraphBreak(plain_reason(str(reason.reason)), origin)


class Part:
    """A part of an author's function that dynamo has compiled: up to a break, or to the end."""

    def __init__(self, code: CodeType | None, begins: int, ended: GraphBreak | None) -> None:
        self.code = code
        """What dynamo compiles: the author's function, or what it made of the rest of one."""
        self.begins = begins
        """The line of its first op."""
        self.ended = ended
        self.number = next(_NUMBERS)
        self.function = "" if code is None else RESUMED.sub(r"\1", code.co_qualname)
        """The author's name for it, as in "Net.forward"."""
        if code is not None:
            _PARTS.setdefault((code.co_filename, self.function), WeakSet()).add(self)

    @property
    def siblings(self) -> list[Part]:
        """One part for each piece of the function that is in use, this one among them, in order."""
        if self.code is None:
            return [self]
        mine: dict[CodeType, Part] = {}
        # Other sizes may have compiled a piece again.
        for part in sorted(_PARTS[self.code.co_filename, self.function], key=lambda p: p.number):
            assert part.code is not None
            mine.setdefault(part.code, part)
        return sorted(mine.values(), key=lambda p: (p.begins, p.number))

    @property
    def defined(self) -> Origin | None:
        """The line where the author's function begins, if the part that begins there is in use."""
        for part in self.siblings:
            code = part.code
            if code is not None and RESUMED.search(code.co_name) is None:
                file = code.co_filename
                return None if OF_TORCH.search(file) else line_at(file, code.co_firstlineno)
        return None

    def __str__(self) -> str:
        many = self.siblings
        if not self.function:
            return "a graph"
        if len(many) == 1:
            return f"the whole of {self.function}"
        at = [part.code for part in many].index(self.code) + 1
        return f"part {at} of {len(many)} of {self.function}"

    def remarks(self, kind: str = "inference") -> Iterator[tuple[str, Origin | None]]:
        """Yield what there is to say of its graph, each with the line that it is about.

        >>> part = Part(None, 1, GraphBreak("dynamo does not trace print", None))
        >>> [remark for remark, _ in part.remarks()]
        ['a graph', 'it ends here, since dynamo does not trace print']
        """
        is_backward = kind == "backward"
        cut = ", as dynamo has cut it" if len(self.siblings) > 1 else ""
        yield f"{'the gradients of ' * is_backward}{self}{cut}", self.defined
        if self.ended is not None:
            what = "its forward pass" if is_backward else "it"
            yield f"{what} ends here, since {self.ended.reason}", self.ended.origin


def part_of(module: Torch) -> Part:
    """Return the part of an author's function that dynamo is compiling right now."""
    code: CodeType | None = None
    try:
        # No interface of dynamo's tells; without this a part has no name.
        translator: Any = import_module("torch._dynamo.symbolic_convert").InstructionTranslator
        code = translator.current_tx().output.root_tx.f_code
    except (ImportError, AttributeError):
        pass
    lines = re.compile(r'File "(.+)", line (\d+)')
    begins = 0 if code is None else code.co_firstlineno
    for node in module.graph.nodes:
        found = lines.search(getattr(node, "stack_trace", None) or "")
        if node.op != "placeholder" and found and code and found[1] == code.co_filename:
            begins = int(found[2])
            break
    return Part(code, begins, ended_by(module))
