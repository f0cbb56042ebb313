"""The comparison of the MLRF paper: extracted, learned and expanded phrases, on a marketplace and on real pages."""
