"""A connection to a daemon whose store is a database: a command that the database does not answer for a moment is sent again, as its error says."""

import time

from resp import DEADLINE_S, CommandError, Connection


class PatientConnection(Connection):
    """For commands that may be repeated."""

    def __call__(self, *words):
        end = time.monotonic() + DEADLINE_S
        while True:
            try:
                return super().__call__(*words)
            except CommandError as error:
                if ": STORE " not in str(error) or time.monotonic() >= end:
                    raise
            time.sleep(0.1)
