"""Locksley for Python: README.md of proto/clients/python begins with the first program."""

from .app import App as App, Task as Task
from .batch import Batch as Batch, Explanation as Explanation, JobFacts as JobFacts, Result as Result, Status as Status
from .codec import JSON as JSON, RAW as RAW, Codec as Codec
from .errors import JobCancelled as JobCancelled, JobCrashed as JobCrashed, JobError as JobError, JobTimeout as JobTimeout
from .errors import LocksleyError as LocksleyError, Refused as Refused, Stopped as Stopped, Unreachable as Unreachable
from .executor import Executor as Executor
from .worker import Job as Job, current_job as current_job

__version__ = "0.2.0"
