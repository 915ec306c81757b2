"""`python -m caladan` is `caladan`."""

import sys

try:
    from caladan.cli import main
except KeyboardInterrupt:
    sys.exit(130)

sys.exit(main())
