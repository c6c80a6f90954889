"""Parts of functions that dynamo has cut: their reasons in plain words, and which there are."""

import pytest

from luminal_lab.importing.dynamo_parts import GraphBreak, Part, plain_reason

SAID = {
    "generic_jump TensorVariable()": "the values of a tensor decide how it goes on",
    "Unsupported Tensor.item() call with capture_scalar_outputs=False\n  Explanation: Dynamo …": (
        "the value of a tensor is read as a number"
    ),
    "Tensor.tolist() with non-integer tensor\n  Explanation: Dynamo currently …": (
        "the values of a tensor are read as numbers"
    ),
    "Dynamic shape operator\n  Explanation: Operator `aten._unique2.default`'s output shape …": (
        "the values of a tensor decide the shape of what unique2 returns"
    ),
    "Call to `torch._dynamo.graph_break()`\n  Explanation: User-inserted graph break.": (
        "torch._dynamo.graph_break() asks for it"
    ),
    "Failed to trace builtin operator\n  Explanation: … builtin operator `print` with …": (
        "dynamo does not trace print"
    ),
    "Attempted to call function marked as skipped\n  Explanation: … trace the builtin `time.time.`"
    " This function is …": "dynamo does not trace time.time",
    "Attempted to call function marked as skipped\n  Explanation: … the function `manual_seed` in "
    "file `/x/torch/_compile.py` should not be traced.": "dynamo does not trace manual_seed",
    "logging.Logger method not supported\n  Developer …: method: <Logger x (INFO)>.info":
        "dynamo does not trace logging's info",
    "Unsupported method call\n  Explanation: It is not known.\n  Hint: None.\n  For more details …":
        "dynamo says: Unsupported method call. It is not known.",
}  # fmt: skip


@pytest.mark.parametrize("said", SAID)
def test_reasons_in_plain_words(said: str) -> None:
    assert plain_reason(said) == SAID[said]


def code_of(source: str, name: str, line: int):
    names: dict[str, object] = {}
    exec(compile("\n" * (line - 1) + source, f"/{__name__}.py", "exec"), names)
    return names[name].__code__  # pyright: ignore[reportAttributeAccessIssue]


def test_parts_are_counted_in_the_order_of_the_lines_while_they_are_in_use() -> None:
    first = Part(code_of("def net(): pass", "net", 3), 4, GraphBreak("it prints", None))
    name = "torch_dynamo_resume_in_net_at_5"
    last = Part(code_of(f"def {name}(): pass", name, 5), 9, None)
    middle = Part(code_of(f"def {name}(): pass", name, 6), 7, None)
    again = Part(middle.code, 7, None)  # for other sizes
    assert [*map(str, (first, middle, again, last))] == [
        f"part {k} of 3 of net" for k in (1, 2, 2, 3)
    ]
    (where, _) = [line for _, line in first.remarks()]
    assert where is not None
    assert where.line == 3
    del again, middle
    assert (str(first), str(last)) == ("part 1 of 2 of net", "part 2 of 2 of net")
    del first
    assert str(last) == "the whole of net"
    assert last.defined is None
