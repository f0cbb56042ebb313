"""Click prediction: online learners, their feature table, and what a working system needs around them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
