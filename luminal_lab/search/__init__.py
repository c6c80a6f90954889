"""Search: programs that nobody wrote, found by rules that know no layer and by measured times.

space = ll.search.space_of(cx.ir)
*refused, best = ll.search.judged_programs(space)
print(best.derivation)
"""

from luminal_lab.algebra.rules import RULES
from luminal_lab.algebra.rules.rule import Rule, Rules
from luminal_lab.search.program import Program, judged_programs
from luminal_lab.search.proof import refutation, rule
from luminal_lab.search.space import Space, space_of
from luminal_lab.tensor.arguments import told_object

told_object("rule")(Rule)  # `algebra/` is below what tells of wrong calls
told_object("rules")(Rules)

__all__ = ["RULES", "Program", "Space", "judged_programs", "refutation", "rule", "space_of"]
