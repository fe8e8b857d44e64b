"""Time limits, of jobs and of others, that a quick machine need not wait out for long, and that a slow one can keep."""

LIMITS = {500: "500ms", 3000: "3s", 10_000: "10s"}  # ms, and as the daemon writes them


def with_growing_limits(attempt):
    """Calls `attempt(ms, text)` with one limit after the other until it returns true: with the last one at the latest. It returns false if the machine was
    too slow for the limit, so that what should have begun or ended in time did not; whatever slowness does not explain it asserts itself."""
    for ms, text in LIMITS.items():
        if attempt(ms, text):
            return
    raise AssertionError(f"not even {text} were enough")
