"""A marketplace with known truth, its traffic, users and closed loop, and matrices of any size and known structure."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
