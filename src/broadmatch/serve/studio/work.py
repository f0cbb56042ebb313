"""What takes longer than a few milliseconds is done in the app's threads; who finds too many waiting comes again."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import ParamSpec, TypeVar

from broadmatch.serve.problems import Problem

_MOST_WAITING = 8
_P = ParamSpec("_P")
_R = TypeVar("_R")


class StudioWork:
    """Runs functions for the studio's endpoints, a bounded number at once."""

    def __init__(self, pool: Executor) -> None:
        self._pool, self.waiting = pool, 0

    async def run(self, function: Callable[_P, _R], *args: _P.args, **how: _P.kwargs) -> _R:
        """What a function gives; 503 if too many wait already."""
        if self.waiting >= _MOST_WAITING:
            raise Problem(503, "The studio has too much to do; try again in a second.", [(b"retry-after", b"1")])
        self.waiting += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._pool, lambda: function(*args, **how))
        finally:
            self.waiting -= 1
