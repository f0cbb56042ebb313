"""The ad server: recommends, matches, prices, logs what it answers, and takes up what is learned from it."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
