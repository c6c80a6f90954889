"""The exercises of notebook 16: what must run, the letters of bytes, and what a page may do."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import cast

import numpy as np

from luminal_lab.course.compiling import no_function
from luminal_lab.course.exercise import Exercise, Verdict
from luminal_lab.course.probing import kind

Launches = list[tuple[list[int], list[int]]]

# -- 16.1 ------------------------------------------------------------------------------------------

CHAIN: Launches = [([0], [3]), ([1], [4]), ([3], [5]), ([4, 5], [6])]
FORK: Launches = [([0, 1], [2, 3]), ([2], [4]), ([3], [5]), ([0], [6])]


def runs(answer: object) -> Verdict:
    """Does it find the launches behind some values, and no others?"""

    def found(launches: Launches, wanted: set[int], right: list[int]) -> str:
        given = [(list(reads), list(makes)) for reads, makes in launches]
        got: object = cast("Callable[..., object]", answer)(given, set(wanted))
        if not isinstance(got, list | tuple):
            return f"expected a list of launches, got {kind(got)}"
        numbers = [*cast("Sequence[object]", got)]
        return "" if numbers == right else f"expected {right}, got {numbers}"

    return no_function(answer) or Verdict.all(
        (
            "it finds what makes a value, and what makes what that reads",
            lambda: found(CHAIN, {5}, [0, 2]),
            "what a launch reads is wanted, too: go from the last launch to the first",
        ),
        (
            "it finds all of them where all are needed",
            lambda: found(CHAIN, {6}, [0, 1, 2, 3]),
            "the numbers are in order, the first launch first",
        ),
        (
            "one launch may make several values",
            lambda: found(FORK, {4, 5}, [0, 1, 2]),
            "each launch is in the list once",
        ),
        (
            "nothing runs for inputs",
            lambda: found(FORK, {0, 1}, []),
            "a launch is needed if it makes something that is wanted",
        ),
    )


# -- 16.2 ------------------------------------------------------------------------------------------


def lengths(answer: object) -> Verdict:
    """Does it say how many letters bytes have in base64?"""

    def right(size: int) -> str:
        got: object = cast("Callable[..., object]", answer)(size)
        want = len(b64encode(bytes(size)))
        if isinstance(got, bool) or not isinstance(got, int | np.integer):
            return f"expected a whole number, got {kind(got)}"
        return "" if got == want else f"{size} bytes: expected {want}, got {got}"

    return no_function(answer) or Verdict.all(
        ("three bytes are four letters", lambda: right(3000), "4 * size / 3, as a whole number"),
        (
            "what is left over is filled up",
            lambda: right(1) or right(1001) or right(1_000_001),
            "round up to whole groups of three before you multiply",
        ),
        ("no bytes have no letters", lambda: right(0), "the empty text has length 0"),
    )


# -- 16.3 ------------------------------------------------------------------------------------------

SCRIPTS = "run()", 'say("é")'
WILD = "*", "'unsafe-inline'", "'unsafe-eval'", "'self'", "data:", "blob:", "http:", "https:"


Rules = dict[str, list[str]]


def allows(answer: object) -> Verdict:
    """Does a policy allow one script and WebAssembly, and nothing else?"""

    def asked(ask: Callable[[Rules, str], str]) -> str:
        for script in SCRIPTS:
            got: object = cast("Callable[..., object]", answer)(script)
            if not isinstance(got, str):
                return f"expected a text, got {kind(got)}"
            if said := ask(rules_of(got), script):
                return said
        return ""

    return no_function(answer) or Verdict.all(
        (
            "it forbids what is not mentioned",
            lambda: asked(_forbids),
            "rules have a ; between them, and the first one is default-src 'none'",
        ),
        (
            "it allows the script, by its hash",
            lambda: asked(_runs),
            "b64encode(sha256(script.encode()).digest()).decode()",
        ),
        ("it allows WebAssembly", lambda: asked(_computes), "the word is 'wasm-unsafe-eval'"),
        ("it allows no other script", lambda: asked(_no_more), "script-src has two words"),
    )


def rules_of(policy: str) -> Rules:
    """Return the rules of a policy, of which the first of a name counts.

    >>> rules_of("default-src 'none'; img-src data:")["img-src"]
    ['data:']
    """
    parts = [rule.split() for rule in policy.split(";") if rule.strip()]
    return {words[0].lower(): words[1:] for words in reversed(parts)}


def _of_scripts(rules: Rules) -> list[str]:
    return rules.get("script-src", rules.get("default-src", []))


def _forbids(rules: Rules, script: str) -> str:
    del script
    if rules.get("default-src") != ["'none'"]:
        return "expected default-src 'none'"
    more = [name for name in rules if name not in ("default-src", "script-src")]
    wide = [name for name in sorted(more) if rules[name] != ["'none'"]]
    return f"{wide[0]} is a rule too many" if wide else ""


def _runs(rules: Rules, script: str) -> str:
    want = f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'"
    runs_it = want in _of_scripts(rules)
    return "" if runs_it else f"the script {script} does not run: {want} is missing"


def _computes(rules: Rules, script: str) -> str:
    del script
    return "" if "'wasm-unsafe-eval'" in _of_scripts(rules) else "WebAssembly does not start"


def _no_more(rules: Rules, script: str) -> str:
    del script
    words = _of_scripts(rules)
    wild = [word for word in words if word in WILD]
    if wild:
        return f"{wild[0]} lets others run, too"
    return "" if len(words) == 2 else f"expected two words behind script-src, got {len(words)}"


EXERCISES = (
    Exercise(
        "16.1",
        "answer is a function needed(launches, wanted) that returns the numbers of the launches "
        "that have to run for the values in the set wanted, in order; each launch is a pair of "
        "two lists, what it reads and what it makes.",
        (
            "Which launch makes a value that is wanted? What it reads is wanted, too.",
            "Launches are in order: whoever makes something comes before whoever reads it.",
            "Walk from the last launch to the first, and reverse what you found.",
        ),
        """def needed(launches, wanted):
    wanted, found = set(wanted), []
    for k in reversed(range(len(launches))):
        reads, makes = launches[k]
        if wanted & set(makes):
            wanted |= set(reads)
            found.append(k)
    return found[::-1]


answer = needed""",
        runs,
    ),
    Exercise(
        "16.2",
        "answer is a function letters(size) that returns how many letters so many bytes have in "
        "base64: four for each three bytes, and what is left over is filled up to four.",
        (
            "How many groups of three bytes are there, the last one perhaps not full?",
            "(size + 2) // 3 rounds up.",
            "Each group has four letters.",
        ),
        """def letters(size):
    return (size + 2) // 3 * 4


answer = letters""",
        lengths,
    ),
    Exercise(
        "16.3",
        "answer is a function policy(script) that returns a Content-Security-Policy under which a "
        "page may run this one script and WebAssembly, and nothing else.",
        (
            "Print the policy of the notebook's page again: the first two rules are enough.",
            "default-src 'none' forbids; script-src 'sha256-…' 'wasm-unsafe-eval' allows.",
            "hashlib.sha256(script.encode()).digest() are the bytes that base64 writes.",
        ),
        """from base64 import b64encode
from hashlib import sha256


def policy(script):
    digest = b64encode(sha256(script.encode()).digest()).decode()
    return f"default-src 'none'; script-src 'sha256-{digest}' 'wasm-unsafe-eval'"


answer = policy""",
        allows,
    ),
)
