"""Click prediction: online learners, their feature table, and what a working system needs around them."""

__all__: list[str] = []
