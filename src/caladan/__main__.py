"""`python -m caladan` is `caladan`."""

import sys

from caladan.cli import main

sys.exit(main())
