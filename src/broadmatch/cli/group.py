"""How every command ends: 0 if well, 1 with one sentence if not, 130 after Ctrl-C; usage errors are typer's 2."""

import errno
import re
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from broadmatch.cli import output
from broadmatch.errors import BadParameter, BroadmatchError
from broadmatch.io import buckets

_MAPPING = re.compile(r"(\w*)columns=\{([^}]*)\}")
_OF_PAGES = ("name", "html")
_CALLED = "broadmatch.cli.called"
_COPIES = "broadmatch.cli.copies"
_LIVING = frozenset({"alerts", "events", "follow", "judge", "keys", "publish", "serve", "signals", "studio"})
_INTERRUPTED = "Interrupted; nothing half-written was left."


class Subcommands(TyperGroup):
    """A group within the group: it leaves word of which command was called."""

    def resolve_command(self, ctx: Any, args: Any) -> Any:
        found = super().resolve_command(ctx, args)
        ctx.meta[_CALLED] = found[1]  # all contexts of a call share it, and the innermost command comes last
        return found


class Commands(Subcommands):
    """The group of commands; errors that broadmatch raises on purpose become one sentence on standard error.

    A command has this host's copies of what it is given by address, and what it has made of them is sent in the end.
    """

    def resolve_command(self, ctx: Any, args: Any) -> Any:
        options = [word.rpartition("=") if word.startswith("-") else ("", "", word) for word in args]
        living = [word for word in args[:2] if word in _LIVING]
        if living and any(buckets.is_address(value) for _, _, value in options):
            raise BadParameter(
                f"`{living[0]}` works on files that change while it runs, and what is in a bucket is copied before and "
                "after: name a folder."
            )
        here = [buckets.fetch(value) if buckets.is_address(value) else value for _, _, value in options]
        ctx.meta[_COPIES] = [(place, buckets.held(place)) for place in here if isinstance(place, Path)]
        words = [f"{option}{equals}{value}" for (option, equals, _), value in zip(options, here, strict=True)]
        return super().resolve_command(ctx, words)

    def invoke(self, ctx: Any) -> Any:
        def in_options(text: str) -> str:
            command = ctx.meta.get(_CALLED)
            options = {p.name or "": p.opts[0] for p in (command.params if command else [])}
            return buckets.in_addresses(with_option_names(text, options))

        with output.log_to_stderr(in_options):
            try:
                value = super().invoke(ctx)
                for place, files in ctx.meta.get(_COPIES, ()):
                    buckets.send(place, files)
                return value
            except BroadmatchError as error:
                raise _ended(in_options(str(error)), 1) from error
            except KeyboardInterrupt as error:
                raise _ended(_INTERRUPTED, 130) from error
            except SystemError as error:  # Ctrl-C while compiled code was being loaded
                if not isinstance(error.__cause__, KeyboardInterrupt):
                    raise
                raise _ended(_INTERRUPTED, 130) from error
            except OSError as error:
                if error.errno == errno.EPIPE:  # the reader of our output, such as `head`, has enough
                    raise
                raise _ended(f"{error.filename or 'Cannot write the output'}: {error.strerror or error}.", 1) from error
            except MemoryError as error:
                raise _ended("The memory is not enough for this; use less data or a larger machine.", 1) from error


def with_option_names(text: str, option_of: dict[str, str]) -> str:
    """Name options instead of the library's parameters, for those are what the reader can change.

    >>> with_option_names("n_trees must be a whole number.", {"n_trees": "--trees"})
    '--trees must be a whole number.'
    >>> with_option_names("Say which, as in columns={'query': ..., 'page': ...}.", {})
    'Say which, as in --columns query=YOURS,page=YOURS.'
    >>> with_option_names("Go on by resume=True.", {"resume": "--resume"})
    'Go on by --resume.'
    """

    def mapped(found: re.Match[str]) -> str:
        names = re.findall(r"'(\w+)':", found[2])
        of = found[1].replace("_", "-") or ("page-" if names[0] in _OF_PAGES else "")
        return f"--{of}columns {','.join(f'{name}=YOURS' for name in names)}"

    text = _MAPPING.sub(mapped, text)
    for name, option in option_of.items():
        if not option.startswith("-"):
            continue
        # A name that is a plain word, such as seed, stands for the parameter only where a broken rule begins.
        place = rf"(?<![\w-]){name}\b" if "_" in name else rf"^{name}(?= must be )"
        text = re.sub(place, option, re.sub(rf"\b{name}=True", option, text))
    return text


def _ended(sentence: str, code: int) -> typer.Exit:
    typer.echo(f"Error: {sentence}" if code == 1 else sentence, err=True)
    return typer.Exit(code)
