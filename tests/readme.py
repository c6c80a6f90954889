"""Run the examples of README.md as a person would type them, and show what they print."""

import code
import doctest
import re
import sys
from pathlib import Path

README = Path(__file__).resolve().parents[1] / "README.md"
FENCE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def examples(markdown: str) -> list[doctest.Example]:
    """Return the `>>>` examples of all python blocks, each with its line in the whole text."""
    found: list[doctest.Example] = []
    for block in FENCE.finditer(markdown):
        start = markdown.count("\n", 0, block.start(1))
        for example in doctest.DocTestParser().get_examples(block[1]):
            example.lineno += start
            found.append(example)
    return found


def play(found: list[doctest.Example]) -> None:
    """Print each example after its prompts, run it, and let its output follow."""
    session = code.InteractiveInterpreter()
    for example in found:
        first, *rest = example.source.splitlines()
        print(f">>> {first}", *(f"... {line}" for line in rest), sep="\n")
        # The blank lines put the code at its own line of README.md, which errors then name.
        placed = "\n" * example.lineno + example.source
        session.runcode(compile(placed, str(README), "single"))


if __name__ == "__main__":
    # Tracebacks go to the other stream: neither is to overtake the other. (A type checker knows
    # standard output as any text stream, which need not have `reconfigure`.)
    sys.stdout.reconfigure(line_buffering=True)  # pyright: ignore[reportAttributeAccessIssue]
    play(examples(README.read_text(encoding="utf-8")))
