"""How every command ends: 0 if well, 1 with one sentence if not, 130 after Ctrl-C; usage errors are typer's 2."""

import contextlib
import errno
import re
from typing import Any

import typer
from typer.core import TyperGroup

from broadmatch.cli import output
from broadmatch.errors import BadParameter, BroadmatchError
from broadmatch.io import buckets

_MAPPING = re.compile(r"(\w*)columns=\{([^}]*)\}")
_OF_PAGES = ("name", "html")
_CALLED = "broadmatch.cli.called"
_ADDRESS = re.compile(r"((?:--?[\w-]+=)?(?:[\w.]+=)?@?)(s3://.*)", re.DOTALL)
_IN_BUCKETS = ("harvest", "train", "evaluate", "recommend", "explain", "extract", "ads index", "data show",
               "cluster check")  # fmt: skip
_INTERRUPTED = "Interrupted; nothing half-written was left."


class Subcommands(TyperGroup):
    """A group within the group: it leaves word of which command was called."""

    def resolve_command(self, ctx: Any, args: Any) -> Any:
        found = super().resolve_command(ctx, args)
        ctx.meta[_CALLED] = found[1]  # all contexts of a call share it, and the innermost command comes last
        return found


class Commands(Subcommands):
    """The group of commands; errors that broadmatch raises on purpose become one sentence on standard error.

    A command that takes addresses has copies of what is there, and what it has made among them is sent in the end.
    """

    def resolve_command(self, ctx: Any, args: Any) -> Any:
        words = list(args)
        for at, word in enumerate(args):
            found = _ADDRESS.fullmatch(word)
            if found is None:
                continue
            if not {args[0], " ".join(args[:2])} & {*_IN_BUCKETS} or "--signals" in (word[:9], args[at - 1]):
                raise BadParameter(
                    f"{found[2]} is in a bucket; {', '.join(_IN_BUCKETS)} work with buckets, others with folders, such "
                    "as one that the bucket is mounted at."
                )
            words[at] = f"{found[1]}{buckets.fetch(found[2])}"
        return super().resolve_command(ctx, words)

    def invoke(self, ctx: Any) -> Any:
        def in_options(text: str) -> str:
            command = ctx.meta.get(_CALLED)
            options = {p.name or "": p.opts[0] for p in (command.params if command else [])}
            return buckets.in_addresses(with_option_names(text, options))

        with output.log_to_stderr(in_options):
            try:
                with buckets.own_copies():
                    return self._invoke(ctx)
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

    def _invoke(self, ctx: Any) -> Any:
        try:
            value = super().invoke(ctx)
        except BroadmatchError:
            with contextlib.suppress(BroadmatchError):  # the first error is the one to tell
                buckets.send()  # such as the rows that were rejected
            raise
        buckets.send()
        return value


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
