"""`python -m caladan.cli` is `caladan`."""

import sys

from caladan.cli import main

sys.exit(main())
