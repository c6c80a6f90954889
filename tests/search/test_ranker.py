"""The ranker: silent below 64 schedules, and then better than chance."""

from luminal_lab.search.draws import ScheduleDraft
from luminal_lab.search.ranker import LEAST, ranked


def drafts(count: int, start: int = 0) -> list[ScheduleDraft]:
    return [
        ScheduleDraft(f"split i by {2 + n}", (("rows", 2 + n),), "draw")
        for n in range(start, start + count)
    ]


def test_few_schedules_say_nothing():
    known = [(draft, 1.0) for draft in drafts(LEAST - 1)]
    others = drafts(5, 100)
    assert ranked(known, others) == others


def test_many_say_which_is_likely_fast():
    known = [(draft, 1.0 + draft.choices[0][1]) for draft in drafts(LEAST)]
    others = drafts(8, 100)
    assert ranked(known, [*reversed(others)]) == others
