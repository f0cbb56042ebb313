"""Parameters, each written once: `n_trees: Annotated[int, Whole(1), "trees in the forest"] = 50`.

That one line gives the constructor, the check in `fit`, the docs and the command-line option. `Estimator` makes a
keyword-only dataclass of every class below it, and speaks scikit-learn's protocol without importing scikit-learn.

>>> Whole(1).check("n_trees", 0)
Traceback (most recent call last):
    ...
broadmatch.errors.BadParameter: n_trees must be a whole number of at least 1, but it is 0.
"""

import dataclasses
import difflib
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, dataclass_transform, get_args, get_origin

from broadmatch.errors import BadParameter


class Rule:
    """What values a parameter may take."""

    def holds(self, value: object) -> bool:
        """Say whether `value` keeps the rule."""
        raise NotImplementedError

    def text(self) -> str:
        """Name the rule so that it reads well after 'must be'."""
        raise NotImplementedError

    def parse(self, text: str) -> Any:
        """The value that a text means, as on a command line; a text that means none is given back as it is."""
        return text

    def check(self, name: str, value: object) -> None:
        """Raise `BadParameter` unless `value` keeps the rule."""
        if not self.holds(value):
            raise BadParameter(f"{name} must be {self.text()}, but it is {value!r}.")

    def to_plain(self, value: Any) -> Any:
        """The value as JSON can hold it."""
        return value

    def from_plain(self, plain: Any) -> Any:
        """The value that `to_plain` was given."""
        return plain


def _range(low: float | None, high: float | None, above: bool) -> str:
    if low is not None and high is not None:
        return f" from {low} to {high}" if not above else f" above {low} and at most {high}"
    if low is not None:
        return f" above {low}" if above else f" of at least {low}"
    return f" of at most {high}" if high is not None else ""


@dataclass(frozen=True)
class Whole(Rule):
    """A whole number from `low` to `high`, of at most 64 bits; `none` allows None too."""

    low: int | None = None
    high: int | None = None
    none: bool = False

    def holds(self, value: object) -> bool:
        if value is None:
            return self.none
        if isinstance(value, bool) or not isinstance(value, Integral):
            return False
        high = 2**63 - 1 if self.high is None else self.high
        return (-(2**63) if self.low is None else self.low) <= int(value) <= high

    def text(self) -> str:
        return "a whole number" + _range(self.low, self.high, False) + (" or None" if self.none else "")

    def parse(self, text: str) -> Any:
        return None if self.none and text == "none" else _number(int, text)


@dataclass(frozen=True)
class Number(Rule):
    """A finite number from `low` to `high`; `above` leaves `low` itself out."""

    low: float | None = None
    high: float | None = None
    above: bool = False
    none: bool = False

    def holds(self, value: object) -> bool:
        if value is None:
            return self.none
        if isinstance(value, bool) or not isinstance(value, Real):
            return False
        try:
            v = float(value)
        except OverflowError:  # a whole number beyond every float
            return False
        if v != v or v in (float("inf"), float("-inf")):
            return False
        if self.low is not None and (v <= self.low if self.above else v < self.low):
            return False
        return self.high is None or v <= self.high

    def text(self) -> str:
        return "a number" + _range(self.low, self.high, self.above) + (" or None" if self.none else "")

    def parse(self, text: str) -> Any:
        return None if self.none and text == "none" else _number(float, text)


@dataclass(frozen=True)
class OneOf(Rule):
    """One of a few values."""

    options: tuple[object, ...]

    def holds(self, value: object) -> bool:
        return any(type(value) is type(o) and value == o for o in self.options)

    def text(self) -> str:
        return "one of " + ", ".join(repr(o) for o in self.options)

    def parse(self, text: str) -> Any:
        return next((o for o in self.options if str(o).lower() == text), text)


@dataclass(frozen=True)
class Flag(Rule):
    """True or False."""

    def holds(self, value: object) -> bool:
        return isinstance(value, bool)

    def text(self) -> str:
        return "True or False"

    def parse(self, text: str) -> Any:
        return {"true": True, "yes": True, "false": False, "no": False}.get(text.lower(), text)


@dataclass(frozen=True)
class Either(Rule):
    """A value that keeps at least one of several rules."""

    rules: tuple[Rule, ...]

    def holds(self, value: object) -> bool:
        return any(rule.holds(value) for rule in self.rules)

    def text(self) -> str:
        return ", or ".join(rule.text() for rule in self.rules)

    def parse(self, text: str) -> Any:
        meant = (rule.parse(text) for rule in self.rules)
        return next((value for value in meant if self.holds(value)), text)


class Tries:
    """What a search for good values may try of a parameter, declared beside its rule."""

    def around(self, value: Any) -> list[Any]:
        """The values one step from `value`, or all that there are to begin with."""
        raise NotImplementedError


@dataclass(frozen=True)
class Among(Tries):
    """One of a few values; `ordered` ones are tried next to the value at hand only.

    >>> Among(False, True).around(False), Among(0, 0.01, 0.1, ordered=True).around(0)
    ([True], [0.01])
    """

    values: tuple[Any, ...]
    ordered: bool

    def __init__(self, *values: Any, ordered: bool = False) -> None:
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "ordered", ordered)

    def around(self, value: Any) -> list[Any]:
        if not self.ordered or value not in self.values:
            return [one for one in self.values if one != value]
        at = self.values.index(value)
        return [self.values[i] for i in (at - 1, at + 1) if 0 <= i < len(self.values)]


@dataclass(frozen=True)
class Range(Tries):
    """Numbers from `low` to `high`: a step goes `by` times as high or low, or `plus` as much up or down.

    Whole bounds mean whole numbers. From None, or a word, the search begins with numbers all over the range.

    >>> Range(1, 100, by=2).around(10), Range(0.0, 1.0, plus=0.1).around(1.0), Range(10, 500, by=3).around(None)
    ([5, 20], [0.9], [10, 30, 90, 270])
    """

    low: float
    high: float
    by: float = 1.0
    plus: float = 0.0

    def around(self, value: Any) -> list[Any]:
        if isinstance(value, str) or value is None:
            found = [float(self.low)]
            while (step := found[-1] * self.by + self.plus) <= self.high:
                found.append(step)
        else:
            found = [value / self.by - self.plus, value * self.by + self.plus]
        whole = isinstance(self.low, int)
        kept = (min(max(one, self.low), self.high) for one in found)
        near = [round(one) if whole else float(f"{one:.3g}") for one in kept]
        return [one for one in dict.fromkeys(near) if one != value]


def _number(kind: type[int] | type[float], text: str) -> Any:
    try:
        return kind(text)
    except ValueError:
        return text


SEED = Whole(0, 2**32 - 1)
N_JOBS = Either((OneOf((-1, None)), Whole(1)))
Seed = Annotated[int, SEED, "another number gives another draw; the same gives the same model"]
Jobs = Annotated[int | None, N_JOBS, "threads; None takes every core; the result does not depend on it"]


class Parameter(NamedTuple):
    """One parameter of an estimator."""

    name: str
    rule: Rule
    default: Any
    help: str
    search: Tries | None = None


def learned(*, init: Literal[False] = False) -> Any:
    """Declare an attribute that `fit` sets and that is saved with the estimator: `forest_: Forest = learned()`."""
    return dataclasses.field(init=False, repr=False, metadata={"learned": True})


def derived(*, init: Literal[False] = False) -> Any:
    """Declare an attribute that is made from what was learned, and is not saved."""
    return dataclasses.field(init=False, repr=False)


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(learned, derived, dataclasses.field))
class Estimator:
    """Base of everything with parameters: the fields annotated with a `Rule` are the constructor's keywords.

    Attributes that are learned end in an underscore and are declared by `learned()`.

    >>> class Forest(Estimator):
    ...     n_trees: Annotated[int, Whole(1), "trees in the forest"] = 50
    >>> Forest.parameters["n_trees"].default, Forest(n_trees=3)
    (50, Forest(n_trees=3))
    """

    takes_labels: ClassVar[bool] = False
    """Whether `fit` takes a matrix of labels, points × labels, with weights of at least 0."""
    rules: ClassVar[dict[str, Rule]] = {}
    parameters: ClassVar[dict[str, Parameter]] = {}
    """The declared parameters, in their order."""
    learned_fields: ClassVar[tuple[str, ...]] = ()
    """The attributes that are declared by `learned()`."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        dataclasses.dataclass(kw_only=True, eq=False, repr=False)(cls)
        cls.parameters = declared = _declared(cls)
        cls.rules = {name: parameter.rule for name, parameter in declared.items()}
        fields: Any = dataclasses.fields
        cls.learned_fields = tuple(field.name for field in fields(cls) if "learned" in field.metadata)
        if cls.__doc__ and declared:
            lines = (f"{p.name}: {p.help}; {p.rule.text()} ({_default(p)})." for p in declared.values())
            cls.__doc__ = cls.__doc__.rstrip() + "\n\n    Parameters:\n\n    " + "\n    ".join(lines) + "\n"

    def check_params(self) -> None:
        """Check every parameter against its rule; called first by `fit`."""
        for name, rule in self.rules.items():
            rule.check(name, getattr(self, name))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name; with `deep`, also those of estimators among them, as `model__c`."""
        found: dict[str, Any] = {}
        for name in self.rules:
            value = found[name] = getattr(self, name)
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                found |= {f"{name}__{inner}": v for inner, v in value.get_params().items()}
        return found

    def set_params(self, **given: Any) -> Self:
        """Set parameters by name; `model__c` sets the parameter `c` of the parameter `model`."""
        nested: dict[str, dict[str, Any]] = {}
        for key, value in given.items():
            name, inside, inner = key.partition("__")
            if name not in self.rules:
                raise BadParameter(unknown_name(name, self.rules, f"a parameter of {type(self).__name__}"))
            if inside:
                nested.setdefault(name, {})[inner] = value
            else:
                setattr(self, name, value)
        for name, values in nested.items():
            getattr(self, name).set_params(**values)
        return self

    def __repr__(self) -> str:
        """The parameters that are not the default, as in the call that makes it."""
        changed = {
            name: getattr(self, name)
            for name, parameter in self.parameters.items()
            if repr(getattr(self, name)) != repr(parameter.default)
        }
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in changed.items())})"

    def __sklearn_clone__(self) -> Self:
        """An estimator with the same parameters that has learned nothing."""
        return type(self)(**{name: clone(getattr(self, name)) for name in self.rules})

    def __sklearn_is_fitted__(self) -> bool:
        """Whether everything that is learned is there."""
        return all(hasattr(self, name) for name in self.learned_fields)

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn may expect; it asks for this only where it is loaded."""
        from sklearn.utils import InputTags, Tags, TargetTags

        target = TargetTags(required=self.takes_labels)
        if self.takes_labels:
            target.two_d_labels = target.multi_output = target.positive_only = True
            target.one_d_labels = target.single_output = False
        return Tags(estimator_type=None, target_tags=target, input_tags=InputTags(sparse=True))


def _default(parameter: Parameter) -> str:
    return "required" if parameter.default is dataclasses.MISSING else f"default {parameter.default!r}"


def clone(value: Any) -> Any:
    """A copy that has learned nothing of an estimator; any other parameter as it is."""
    if isinstance(value, type) or not hasattr(value, "get_params"):
        return value
    if hasattr(value, "__sklearn_clone__"):
        return value.__sklearn_clone__()
    return type(value)(**{name: clone(inner) for name, inner in value.get_params(deep=False).items()})


def _declared(cls: Any) -> dict[str, Parameter]:
    found = {}
    for field in dataclasses.fields(cls):
        if get_origin(field.type) is not Annotated:
            continue
        rule = next((part for part in get_args(field.type)[1:] if isinstance(part, Rule)), None)
        search = next((part for part in get_args(field.type)[1:] if isinstance(part, Tries)), None)
        text = next((part for part in reversed(get_args(field.type)[1:]) if isinstance(part, str)), "")
        if rule is not None:
            found[field.name] = Parameter(field.name, rule, field.default, text, search)
    return found


def unknown_name(name: str, known: Any, what: str) -> str:
    """A sentence that says that there is no such name, and which one may be meant."""
    near = difflib.get_close_matches(name, list(known), 1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}."
    return f"{name!r} is not {what}; {hint}"
