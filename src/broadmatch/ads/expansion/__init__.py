"""KSP, the expansion of phrases: its arms, their weights, and what is near-duplicate or ruled out."""
