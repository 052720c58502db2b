"""``python -m tilt``."""

import sys

from tilt.cli import main

if __name__ == "__main__":
    sys.exit(main())
