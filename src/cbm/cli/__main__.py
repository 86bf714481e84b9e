"""`python -m cbm.cli`."""

import sys

from cbm.cli import main

sys.exit(main())
