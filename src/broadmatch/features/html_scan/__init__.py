"""HTML to words in one pass, without a tree."""
