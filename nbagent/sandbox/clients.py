"""What is told to people who start a sandbox by another program than nbagent, such as JupyterLab."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from nbagent.errors import NbagentError


@contextlib.contextmanager
def telling() -> Iterator[None]:
    """Raise nbagent's errors in words for those who have no options of a command line, and so that they are shown."""
    try:
        yield
    except NbagentError as error:
        raise told(error) from error


def told(error: NbagentError) -> NbagentError:
    """The same error, of the same class, that is one of Tornado's besides.

    Of any other, a Jupyter server tells its page no more than "Unhandled error".
    """
    from tornado.web import HTTPError

    kind = type(error)
    if issubclass(kind, HTTPError):
        return error
    both = type(kind.__name__, (kind, HTTPError), {"__module__": kind.__module__})
    found: NbagentError = BaseException.__new__(both)
    NbagentError.__init__(found, error.message, mend=error.elsewhere)
    HTTPError.__init__(found, 500, str(found))  # type: ignore[arg-type]  # it is one of both
    return found
