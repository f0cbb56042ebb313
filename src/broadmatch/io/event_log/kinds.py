"""The kinds of events."""

from typing import Literal, TypeAlias, get_args

Kind: TypeAlias = Literal["impressions", "clicks", "conversions", "bounces"]
KINDS: tuple[Kind, ...] = get_args(Kind)
