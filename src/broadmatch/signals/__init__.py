"""Signals: which columns of a log become which features."""

__all__: list[str] = []
