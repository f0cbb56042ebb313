"""What can go wrong, as a small hierarchy: one sentence each, with the place and what to do."""

import sys


class BroadmatchError(Exception):
    """Base of every error that broadmatch raises on purpose."""


class BadParameter(BroadmatchError, ValueError):
    """A parameter breaks its declared rule."""


class BadInput(BroadmatchError, ValueError):
    """Data that came in cannot be used as it is; the message names the file and line, or the row."""


class TooManyBadRows(BadInput):
    """More rows of a log were rejected than the caller allows."""


class PositionLost(BadInput):
    """A reader stands where the events of a log are no longer kept."""


class MissingFile(BroadmatchError, FileNotFoundError):
    """A file or folder that was named is not there."""


class BadArtifact(BroadmatchError):
    """A saved folder is damaged, altered, of another kind, or of a newer version."""


class CannotWrite(BroadmatchError, OSError):
    """The disk is full or the place cannot be written; nothing half-written was left."""


class NotFitted(BroadmatchError, ValueError, AttributeError):
    """The estimator has to be fitted, or loaded, before this call."""

    @classmethod
    def of(cls, estimator: object) -> "NotFitted":
        """The error for an estimator; where scikit-learn is loaded, it is a `NotFittedError` too."""
        sentence = f"This {type(estimator).__name__} is not fitted; call fit, or load a trained one."
        theirs = getattr(sys.modules.get("sklearn.exceptions"), "NotFittedError", None)
        return cls(sentence) if theirs is None else _both(cls, theirs)(sentence)


class Conflict(BroadmatchError):
    """Somebody else changed meanwhile what was to be changed."""


class ClusterFailed(BroadmatchError, RuntimeError):
    """A cluster is not there, does not fit together, or cannot do what is asked of it."""


class MissingExtra(BroadmatchError, ImportError):
    """An optional dependency is not installed; the message names the extra."""


def _both(ours: type[NotFitted], theirs: type[Exception]) -> type[NotFitted]:
    return type(ours.__name__, (ours, theirs), {"__module__": ours.__module__})
