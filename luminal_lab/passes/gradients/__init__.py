"""Gradients: the derivatives of a graph, appended to the same graph.

derive.py is the entry point, sweep.py goes backwards through the nodes, rule.py is the table of the
rules in primitive.py, select.py, view.py and structure.py (and of users' own), slope.py keeps what
is 0 at 0, frames.py finds forward values or recomputes them, custom.py has users' own gradients.
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
