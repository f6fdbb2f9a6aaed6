"""Check recordings on an existing Dask cluster."""

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any, cast

from wiretape.errors import InputError

_TIMEOUT_S = 10


@contextmanager
def dask_executor(address: str) -> Iterator[Executor]:
    """Run tasks on the cluster whose scheduler is at `address`; an exception cancels them.  Raises InputError.

    Dask runs the tasks of a worker that is lost again on others.
    """
    try:
        from distributed import Client  # noqa: PLC0415 - an extra
    except ImportError:
        raise InputError("--dask needs Dask: install wiretape[dask].") from None
    try:
        client: Any = cast("Any", Client)(address, timeout=_TIMEOUT_S, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        reason = (str(error).strip().splitlines() or ["it does not respond"])[0].rstrip(".")
        raise InputError(f"No Dask scheduler at {address}: {reason}.") from None
    try:
        executor = client.get_executor(pure=False)
        try:
            yield executor
        except ImportError as error:
            raise InputError(
                f"The workers of {address} cannot check recordings ({error}): install the same wiretape there."
            ) from None
        finally:
            executor.shutdown(wait=False)
    finally:
        client.close()
