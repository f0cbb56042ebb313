"""What is watched over: alerts on figures, each sent once when it begins and once when it ends."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
