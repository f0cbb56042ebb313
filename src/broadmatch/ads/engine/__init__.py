"""The ad engine: from a query to the places beside its answer, with price, probability and reasons."""
