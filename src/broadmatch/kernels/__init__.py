"""Compiled inner loops that several packages share: arrays in, arrays out; no validation, no Python objects.

A kernel of one package stands there, beside what uses it, in a file `_name.py`.
"""

from broadmatch.kernels.jit import F32, F64, I32, I64, U64, Bytes, Flags, kernel

__all__ = ["F32", "F64", "I32", "I64", "U64", "Bytes", "Flags", "kernel"]
