"""Wrong rules are found out, each in its corner; right ones that look wrong are not accused."""

import pytest

from luminal_lab.passes.proof import examine
from tests.passes.wrong_rules import RIGHT, WRONG


@pytest.mark.parametrize("name", WRONG)
def test_a_rule_that_is_wrong_in_one_corner_is_found_out_there(name):
    rule, corner = WRONG[name].rule, WRONG[name].corner
    found = examine(rule).wrong
    assert found is not None, f"{name}: {rule}"
    assert corner(found), found


@pytest.mark.parametrize("name", RIGHT)
def test_a_rule_that_only_looks_wrong_is_not_accused(name):
    tried, wrong = examine(RIGHT[name])
    assert wrong is None, f"{name}: {wrong}"
    assert tried > 0, "it matched nothing"
