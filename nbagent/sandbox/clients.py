"""What is told to people who start a sandbox by another program than nbagent, such as JupyterLab."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from nbagent.core.errors import NbagentError


@contextlib.contextmanager
def telling() -> Iterator[None]:
    """Turn nbagent's errors into ones that Jupyter shows, whose mends name settings instead of flags."""
    try:
        yield
    except NbagentError as error:
        raise told(error) from error


def told(error: NbagentError) -> NbagentError:
    """Make an error an `HTTPError` of Tornado's too; returns it, with its class among its bases.

    Of any other error, a Jupyter server shows no more than "Unhandled error".
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
