"""The hierarchy of errors: one base, and each is also the built-in error that callers may expect."""

import copy
import inspect

import pytest

from broadmatch import errors

ALL = [e for _, e in inspect.getmembers(errors, inspect.isclass) if issubclass(e, BaseException)]


@pytest.mark.parametrize("error", ALL)
def test_every_error_has_the_base_and_says_what_it_is(error):
    assert issubclass(error, errors.BroadmatchError)
    assert error.__doc__
    assert str(error("One sentence.")) == "One sentence."


@pytest.mark.parametrize("error", ALL)
def test_errors_pass_between_processes(error):
    back = copy.copy(error("One sentence."))  # takes the error apart as multiprocessing does
    assert type(back) is error
    assert str(back) == "One sentence."


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (errors.BadParameter, ValueError),
        (errors.BadInput, ValueError),
        (errors.TooManyBadRows, errors.BadInput),
        (errors.PositionLost, errors.BadInput),
        (errors.MissingFile, FileNotFoundError),
        (errors.CannotWrite, OSError),
        (errors.NotFitted, AttributeError),
        (errors.MissingExtra, ImportError),
    ],
)
def test_the_built_in_error_catches_it(error, builtin):
    with pytest.raises(builtin):
        raise error("x")
