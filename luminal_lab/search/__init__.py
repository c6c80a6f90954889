"""Search: from what was written to programs that compute it, by rules that know no layer."""

from luminal_lab.search.rules import RULES

__all__ = ["RULES"]
