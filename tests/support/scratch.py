"""A folder of a test's own."""

import pathlib
import tempfile


def scratch(test, prefix="locksley-test-"):
    """An empty folder, as a path; it goes with the test, or with all tests of the class if `test` is one."""
    folder = tempfile.TemporaryDirectory(prefix=prefix)
    (test.addClassCleanup if isinstance(test, type) else test.addCleanup)(folder.cleanup)
    return pathlib.Path(folder.name)
