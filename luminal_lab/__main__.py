"""`python -m luminal_lab` is the command line."""

import sys

from luminal_lab.cli import main

sys.exit(main())
