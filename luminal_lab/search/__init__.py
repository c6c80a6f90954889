"""Search: programs that nobody wrote, by rules that know no layer and times that were measured."""

from luminal_lab.search.proof import counterexample, rule
from luminal_lab.search.rules import RULES
from luminal_lab.search.space import Space, space_of

__all__ = ["RULES", "Space", "counterexample", "rule", "space_of"]
