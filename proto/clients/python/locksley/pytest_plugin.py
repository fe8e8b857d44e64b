"""For pytest: def test_it(locksleyd): daemon = locksleyd({"python": worker("tasks:app")})"""

import contextlib
from collections.abc import Callable, Iterator

import pytest

from .testing import Daemon


@pytest.fixture
def locksleyd() -> Iterator[Callable[..., Daemon]]:
    """Starts daemons, which end with the test."""
    with contextlib.ExitStack() as daemons:
        yield lambda *args, **settings: daemons.enter_context(Daemon(*args, **settings))
