"""The inverted ad index: phrases under their rarest word, a store that survives, and changes while it is read."""
