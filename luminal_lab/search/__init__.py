"""Search: from what was written to programs that compute it, by rules that know no layer.

space = ll.search.space_of(definition)
*refused, best = ll.search.judged_programs(space)
print(best.derivation)
"""

from luminal_lab.search.program import Program, judged_programs
from luminal_lab.search.proof import counterexample, rule
from luminal_lab.search.rules import RULES
from luminal_lab.search.space import Space, space_of

__all__ = ["RULES", "Program", "Space", "counterexample", "judged_programs", "rule", "space_of"]
