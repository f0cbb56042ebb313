"""Phrases from phrases, for ads: expansion of bid phrases by what people search, click and bid on together."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
