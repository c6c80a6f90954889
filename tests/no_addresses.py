"""Imported first: jsonschema, and with it nbformat, then starts in a tenth of a second, not in two.

It would build the grammars of 38 kinds of addresses as soon as it is imported. Where the package
that has them is missing it does not look at addresses, of which a notebook has none.
"""

import sys

sys.modules["rfc3987_syntax"] = None  # pyright: ignore[reportArgumentType]  # not to be imported
