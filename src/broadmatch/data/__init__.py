"""What is passed around in memory: matrices with their names, impressions, hierarchies."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
