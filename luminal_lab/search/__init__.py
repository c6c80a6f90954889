"""Search: programs that nobody wrote, by rules that know no layer and times that were measured.

space = ll.search.space_of(cx.ir)
*refused, best = ll.search.judged_programs(space)
print(best.derivation)
"""

from luminal_lab.search.program import Program, judged_programs
from luminal_lab.search.proof import counterexample, rule
from luminal_lab.search.rules import RULES
from luminal_lab.search.space import Space, space_of

__all__ = ["RULES", "Program", "Space", "counterexample", "judged_programs", "rule", "space_of"]
