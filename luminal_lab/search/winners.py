"""What searches found, on disk beside the compiled libraries, and checked like them before use.

    ~/.cache/luminal_lab/winners/<key>/
        definition.txt      what is computed
        schedule.txt        the fastest schedule, which may be the default one
        forms.jsonl         the ways to compute it that were tried, a line each
        answers.jsonl       what was asked for and what came of it, a line each
        entry.json          seconds, sizes, machine, versions, seed, and the digest of the others

The key covers what is computed, sizes by powers of two, the machine and its compiler. An entry that
others may have written, that is damaged, or whose schedule does not apply is refused, and the
search runs again. A schedule is not code: each of its steps is checked when it is applied. Above a
limit, the entries unused for longest go.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from luminal_lab.algebra.one_pass import one_pass
from luminal_lab.core.origin import warn
from luminal_lab.devices.build import cache
from luminal_lab.errors import ParseError, ScheduleError
from luminal_lab.kernels.definition.canonical import canonical
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.nest.lowering import lower
from luminal_lab.kernels.steps.applied import applied
from luminal_lab.kernels.steps.schedule import Schedule, parse_schedule
from luminal_lab.plain import plain, read
from luminal_lab.reading import read_json
from luminal_lab.search.driver import Answer, Batch, Driver
from luminal_lab.search.forms import BETWEEN, Form

VERSION = 3
"""The version of a search and of its entries, raised whenever either changes."""
DEFINITION, SCHEDULE = "definition.txt", "schedule.txt"
FORMS, ANSWERS = "forms.jsonl", "answers.jsonl"
FILES = DEFINITION, SCHEDULE, FORMS, ANSWERS
MOST_ANSWERS = 10_000


@dataclass(frozen=True)
class Question:
    """What is searched for: a definition, at some sizes, on some machine."""

    definition: Definition
    dims: Mapping[str, int]
    machine: str
    """The signature of the machine, its compiler and threads."""
    others: tuple[Mapping[str, int], ...] = ()
    """The other sizes, if there are several."""

    @cached_property
    def text(self) -> str:
        """The definition with names that do not depend on where it comes from."""
        return str(canonical(replace(self.definition, name="kernel")))

    @property
    def key(self) -> str:
        """The name of its entry."""
        sizes = [
            ",".join(f"{name}:{size.bit_length()}" for name, size in sorted(dims.items()))
            for dims in (*self.others, self.dims)
        ]
        return cache.key_of(str(VERSION), self.text, ";".join(sizes), "c", self.machine)


@dataclass(frozen=True)
class Winner:
    """An entry: the fastest schedule, and what is known about how it was found."""

    text: str
    forms: tuple[Form, ...]
    form: Form
    """The fastest form."""
    schedules: tuple[Schedule, ...]
    """The schedules of its kernels."""
    seed: int
    created: str
    told: bytes

    @property
    def answers(self) -> list[tuple[Batch, Answer]]:
        """What was asked for and the answers; a ValueError says what cannot be read."""
        lines = self.told.decode("utf-8").splitlines()[:MOST_ANSWERS]
        asked = [read(Asked, read_json(line, exact=True)) for line in lines]
        if any(len(line.answer.outcomes) != len(line.batch.drafts) for line in asked):
            raise ValueError("an answer has other schedules than were asked for")
        return [(line.batch, line.answer) for line in asked]


@dataclass(frozen=True)
class Asked:
    """A batch and its answer: a line of answers.jsonl."""

    batch: Batch
    answer: Answer


@dataclass(frozen=True)
class EntryFacts:
    """What entry.json says, beside its key and the digest of the other files."""

    version: int
    form: int
    """The number of the fastest form."""
    machine: str
    dims: Mapping[str, int]
    seed: int
    seconds: float | None
    created: str


class Winners:
    """A folder of what searches found."""

    def __init__(self, folder: str | Path | None = None) -> None:
        libraries = cache.user_folder() or cache.spare_folder() / "libraries"
        self.folder = libraries.with_name("winners") if folder is None else Path(folder)

    def path(self, question: Question) -> Path:
        """Return where the entry of a question is, if there is one."""
        return self.folder / question.key

    def find(self, question: Question) -> Winner | None:
        """Return what was found before; None if that is nothing, or cannot be trusted."""
        path = self.path(question)
        if not path.is_dir():
            return None
        try:
            return _checked(path, question)
        except (OSError, ValueError, ScheduleError, ParseError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error).partition("\n")[0]
            warn(f"search: {path} is refused, and searched for again: {why or error}")
            return None

    def keep(
        self,
        question: Question,
        forms: Sequence[Form],
        driver: Driver,
        answers: Sequence[tuple[Batch, Answer]],
    ) -> Path | None:
        """Keep what a search has found, and return where; None, with a warning, if that fails."""
        winner = driver.winner
        default = min(driver.reference, default=None)
        share = 1.0 if winner is None else winner.rank
        facts = EntryFacts(
            VERSION,
            0 if winner is None else winner.draft.form,
            question.machine,
            dict(question.dims),
            driver.seed,
            None if default is None else default * share,
            datetime.now(UTC).isoformat(timespec="seconds"),
        )
        schedule = driver.draws.default.schedule if winner is None else winner.draft.schedule
        asked = [Asked(batch, answer) for batch, answer in answers]
        lines = ["\n".join(json.dumps(plain(item)) for item in items) for items in (forms, asked)]
        texts = zip(FILES, (question.text, schedule, *lines), strict=True)
        files = {name: text.encode() for name, text in texts}
        path = self.path(question)
        try:
            cache.write_files(path, files, _mapping(plain(facts)))
        except OSError as error:
            why = error.strerror or str(error)
            warn(f"search: the winner cannot be kept in {self.folder}: {why}")
            return None
        return path


def _checked(path: Path, question: Question) -> Winner:
    """Return an entry, or raise an error that says what is wrong with it."""
    files, noted = cache.read_files(path, FILES)
    facts = read(EntryFacts, noted)
    if facts.version != VERSION or facts.machine != question.machine:
        raise ValueError("it is of another version or machine")
    if files[DEFINITION].decode("utf-8") != question.text:
        raise ValueError("it is of another definition")
    text = files[SCHEDULE].decode("utf-8")
    lines = files[FORMS].decode("utf-8").splitlines()
    forms = tuple(read(Form, read_json(line, exact=True)) for line in lines)
    if not 0 <= facts.form < len(forms):
        raise ValueError("it has no form of that number")
    form, schedules = forms[facts.form], tuple(map(parse_schedule, text.split(BETWEEN)))
    for definition, schedule in zip(form.definitions, schedules, strict=True):
        applied(schedule, lower(one_pass(definition)), definition.name)
    return Winner(text, forms, form, schedules, facts.seed, facts.created, files[ANSWERS])


def _mapping(value: object) -> Mapping[str, object]:
    assert isinstance(value, dict), "facts are fields with names"
    return {str(name): item for name, item in value.items()}  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]  # of JSON
