"""Vetting: whether a signal is fit to be used, measured on a log and judged by rules from a file."""
