"""Phrases on the command line: extracted from pages, expanded from others, and how they are printed."""
