"""How a message leaves the house: as a POST of JSON, or on the standard input of a command."""

import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

_TIMEOUT = 5.0


def send(message: Mapping[str, Any], *, webhook: str | None, command: Sequence[str] | None) -> str | None:
    """Send a message to a webhook or a command, if one is given; what went wrong, if something did.

    >>> send({"text": "hello"}, webhook=None, command=["false"])
    'false ended with 1'
    """
    body = json.dumps(message).encode()
    if command is not None:
        try:
            done = subprocess.run(  # noqa: S603 - the words of whoever runs it, without a shell
                command, input=body, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=_TIMEOUT, check=False
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            return f"{command[0]}: {str(error)[:200]}"
        return None if done.returncode == 0 else f"{command[0]} ended with {done.returncode}"
    if webhook is None:
        return None
    host = urlsplit(webhook).hostname  # the rest of an address may be a secret
    request = urllib.request.Request(webhook, body, {"Content-Type": "application/json"}, method="POST")  # noqa: S310
    try:
        with _OPENER.open(request, timeout=_TIMEOUT) as answer:
            return None if 200 <= answer.status < 300 else f"{host} answered {answer.status}"
    except urllib.error.HTTPError as error:
        return f"{host} answered {error.code}"
    except (OSError, ValueError) as error:
        return f"{host}: {str(error)[:200]}"


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """What is sent goes where the file says, and nowhere else."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirects)
