"""`python -m labelnoise`."""

import sys

from labelnoise.cli import main

if __name__ == "__main__":
    sys.exit(main())
