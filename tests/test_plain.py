"""Dataclasses go to JSON and back, and what is of another type is refused with its place."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import pytest

from luminal_lab.plain import plain, read


@dataclass(frozen=True)
class Inner:
    name: str
    kind: Literal["a", "b"] = "a"


@dataclass(frozen=True)
class Outer:
    many: tuple[Inner, ...] = ()
    pair: tuple[int, str] = (0, "")
    share: float | None = None
    table: Mapping[str, Inner] | None = None
    flag: bool = False


FULL = Outer((Inner("x"), Inner("y", "b")), (1, "z"), 0.5, {"k": Inner("w")}, True)
JSON = {
    "many": [{"name": "x", "kind": "a"}, {"name": "y", "kind": "b"}],
    "pair": [1, "z"],
    "share": 0.5,
    "table": {"k": {"name": "w", "kind": "a"}},
    "flag": True,
}


class Named(NamedTuple):
    name: str
    share: float
    code: str = ""


@dataclass(frozen=True)
class WithNamed:
    row: Named


@pytest.mark.parametrize("row", [["a", 0.5], ["a", 0.5, ""]])
def test_a_named_tuple_may_lack_its_last_fields(row: list[object]):
    assert read(WithNamed, {"row": row}) == WithNamed(Named("a", 0.5))


@pytest.mark.parametrize("row", [["a"], [], ["a", 0.5, "", 1], "a"])
def test_a_named_tuple_has_the_others(row: object):
    with pytest.raises(ValueError, match=r"row is .*, not a list"):
        read(WithNamed, {"row": row})


def test_there_and_back():
    assert plain(FULL) == JSON
    assert read(Outer, JSON) == FULL
    assert read(Outer, {}) == Outer()
    assert read(Outer, {"share": 2, "new in a later version": [1]}).share == 2.0
    assert plain((0.5, float("inf"))) == [0.5, None]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([], "Outer is [], not an object"),
        ({"many": [{"kind": "a"}]}, "Outer.many[0] lacks name"),
        ({"many": [{"name": 1}]}, "Outer.many[0].name is 1, not a text"),
        ({"many": [{"name": "", "kind": "c"}]}, "Outer.many[0].kind is 'c', not one of a, b"),
        ({"many": {}}, "Outer.many is {}, not a list"),
        ({"pair": [1]}, "Outer.pair is [1], not a list of 2"),
        ({"pair": [True, ""]}, "Outer.pair[0] is True, not a whole number"),
        ({"share": "much"}, "Outer.share is 'much', not a number"),
        ({"flag": 1}, "Outer.flag is 1, not true or false"),
        ({"table": {"k": 3}}, "Outer.table.k is 3, not an object"),
        (
            {"pair": "long " * 20},
            "Outer.pair is 'long long long long long long long l…, not a list",
        ),
    ],
)
def test_what_is_of_another_type_is_refused(given, told):
    with pytest.raises(ValueError, match=f"^{re.escape(told)}$"):
        read(Outer, given)


def test_what_no_file_holds_is_our_own_mistake():
    with pytest.raises(TypeError, match="is nothing that JSON can hold"):
        plain(object())
