"""Gradients: derivatives of what was written, as more of it.

derive.py is what users call, sweep.py goes backwards through the nodes, rule.py is the table of the
rules in primitive.py, select.py, view.py and structure.py (and of users' own), slope.py keeps what
is 0 at 0, frames.py finds forward values or writes them again, custom.py has what users say.
"""

# Importing the files of rules fills the table.
from luminal_lab.passes.gradients import (
    primitive as primitive,
    select as select,
    structure as structure,
    view as view,
)
from luminal_lab.passes.gradients.custom import (
    custom_gradient as custom_gradient,
    stop_gradient as stop_gradient,
)
from luminal_lab.passes.gradients.derive import grad as grad
from luminal_lab.passes.gradients.rule import Forward as Forward, gradient as gradient
