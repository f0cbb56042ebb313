"""Variants of a click model in one pass: many models, single values, and the race of learning rates."""
