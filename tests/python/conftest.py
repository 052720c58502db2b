"""What the tests of the package begin with."""

from __future__ import annotations

import signal

# A shell ignores Ctrl-C for what it runs in the background, and the programs that tests start and stop would, too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
