"""Tests of how long something takes: what a loaded machine costs comes and goes, what the daemon does comes each time."""

import functools

ATTEMPTS = 3


class TooSlow(AssertionError):
    """What was measured is above its limit."""


def attempts(test):
    """For a method of a unittest.TestCase: after TooSlow it is run again, with a clean-up and a setUp() before it. The last attempt counts."""

    @functools.wraps(test)
    def with_attempts(self):
        for left in reversed(range(ATTEMPTS)):
            try:
                return test(self)
            except TooSlow as slow:
                if not left:
                    raise
                print(f"once more: {slow}", flush=True)
            self.doCleanups()
            self.setUp()

    return with_attempts
