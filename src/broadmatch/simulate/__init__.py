"""A marketplace with known truth, its closed loop with the ad engine, and matrices of any size with known structure."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
