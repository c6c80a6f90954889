"""`%%lab` on a cell: it runs unchanged, with a workbench below it of everything that it made.

%load_ext luminal_lab

%%lab                     the workbench, alive
%%lab --static            a picture and the passes, without a script
%%lab --save run.lab      also a recording, which ll.open("run.lab") opens
%%lab --as t              the record is t afterwards, as with `with ll.trace() as t:`
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import shlex
import sys
import unicodedata
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from keyword import iskeyword
from typing import Any

from luminal_lab.core.origin import running_shell
from luminal_lab.errors import ArgumentError, LabError
from luminal_lab.tracing import Traced

LONGEST = 60
"""The most letters of an argument that an error shows."""
USAGE = "%%lab [--static] [--save run.lab] [--as name]"


def register(shell: Any) -> None:  # noqa: ANN401  # an object of IPython's
    """Add the magic to a shell."""

    def lab(line: str, cell: str) -> None:
        run_recorded(shell, line, cell)

    lab.__doc__ = __doc__
    shell.register_magic_function(lab, "cell", "lab")


@dataclass(frozen=True)
class _Options:
    static: bool = False
    save: str | None = None
    name: str | None = None


def options_of(line: str) -> _Options:
    """Return the options after `%%lab`.

    >>> options_of("--save 'my run.lab' --static")
    _Options(static=True, save='my run.lab', name=None)
    """
    try:
        words = deque(shlex.split(line))
    except ValueError as error:
        raise ArgumentError(f"%%lab: {_cut(line)} has no end: {error}", hint=USAGE) from error
    static, taken = False, dict[str, str]()
    while words:
        word = words.popleft()
        if word == "--static":
            static = True
        elif word in ("--save", "--as"):
            if not words or words[0].startswith("--"):
                raise ArgumentError(f"%%lab: {word} needs a name after it", hint=USAGE)
            taken[word] = words.popleft()
        else:
            raise ArgumentError(f"%%lab: it has no option {_cut(word)}", hint=USAGE)
    name = taken.get("--as")
    if name is not None and (not name.isidentifier() or iskeyword(name)):
        raise ArgumentError(f"%%lab: {_cut(name)} cannot be the name of a variable", hint=USAGE)
    # Python reads some letters of a name as others: ﬁ is fi.
    name = None if name is None else unicodedata.normalize("NFKC", name)
    return _Options(static, taken.get("--save"), name)


def _cut(text: str) -> str:
    """Return what was typed as an error shows it: a long line is cut."""
    return repr(text if len(text) <= LONGEST else f"{text[:LONGEST]}…")


def run_recorded(shell: Any, line: str, cell: str) -> None:  # noqa: ANN401  # an object of IPython's
    """Run a cell and show the record, also when the cell fails."""
    options = options_of(line)
    traced = Traced()
    try:
        with traced:
            _run(shell, cell)
    except BaseException as error:
        try:
            _end(shell, traced, options)
        except Exception as another:  # the cell's own error is the one to see
            error.add_note(f"and %%lab could not show what was recorded: {another}")
        raise
    if not len(traced):
        print("%%lab: the cell made no graph and no compile; put it on the one that does")
    _end(shell, traced, options)


def _end(shell: Any, traced: Traced, options: _Options) -> None:  # noqa: ANN401  # likewise
    if options.name is not None:
        shell.user_ns[options.name] = traced
    if not len(traced):
        return
    if options.save is not None:
        traced.save(options.save)
    workbench = traced.workbench()
    if options.static:
        workbench.display_static()
    else:
        workbench.display()


def _run(shell: Any, cell: str) -> None:  # noqa: ANN401  # likewise
    """Run the code as a cell, with the line numbers that the notebook shows."""
    # The first line is the magic's own; IPython drops empty lines after it.
    dropped = len(cell) - len(cell.lstrip())
    text = "\n" * (1 + cell.count("\n", 0, dropped)) + shell.transform_cell(cell)
    name = shell.compile.cache(text, _number(shell), raw_code=f"%%lab\n{cell}")
    tree = shell.transform_ast(shell.compile.ast_parse(text, filename=name))
    for node, is_shown in _with_shown(tree.body, shell.ast_node_interactivity):
        module = ast.Interactive([node]) if is_shown else ast.Module([node], [])
        with shell.compile.extra_flags(ast.PyCF_ALLOW_TOP_LEVEL_AWAIT):
            code = shell.compile(module, name, "single" if is_shown else "exec")
        if inspect.CO_COROUTINE & code.co_flags:
            raise LabError(
                "%%lab: the cell waits for something with await",
                where=f"cell {_number(shell)}, line {node.lineno}",
                hint="record it in Python: with ll.trace() as t: …, and then t.workbench()",
            )
        try:
            exec(code, shell.user_global_ns, shell.user_ns)
        except BaseException as error:
            _show_from_cell(shell, error, name)
            raise


def _show_from_cell(shell: Any, error: BaseException, name: str) -> None:  # noqa: ANN401  # likewise
    """Make IPython show an error as without the magic, starting at the cell's own line."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != name:
        trace = trace.tb_next
    if trace is None or hasattr(error, "_render_traceback_"):
        return

    def render() -> list[str]:
        del error._render_traceback_  # pyright: ignore[reportAttributeAccessIssue]  # it was set below
        return shell.InteractiveTB.structured_traceback(type(error), error, trace)

    # Some exceptions take no attributes.
    with contextlib.suppress(AttributeError):
        error._render_traceback_ = render  # pyright: ignore[reportAttributeAccessIssue]  # IPython's name


def _with_shown(body: list[ast.stmt], which: str) -> Iterator[tuple[ast.stmt, bool]]:
    """Yield each statement and whether its value is shown, as IPython is set."""
    for position, node in enumerate(body):
        is_last, is_value = position == len(body) - 1, isinstance(node, ast.Expr)
        if which == "all" or (which == "last" and is_last):
            yield node, True
        elif which == "none" or not is_last:
            yield node, False
        else:
            yield node, is_value
            target = node.targets[0] if isinstance(node, ast.Assign) else None
            if which == "last_expr_or_assign" and isinstance(target, ast.Name):
                name = ast.Name(target.id, ast.Load())
                yield ast.fix_missing_locations(ast.Expr(ast.copy_location(name, node))), True


def _number(shell: Any) -> int:  # noqa: ANN401  # likewise
    """Return the number of the cell that runs, as the notebook will show it."""
    ours = running_shell()
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]  # inspect's is slow
    while ours is not None and frame is not None:
        number = ours.cell_number(frame.f_code.co_filename)
        if number is not None:
            return number
        frame = frame.f_back
    return int(shell.execution_count)
