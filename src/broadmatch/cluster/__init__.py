"""The same jobs on a cluster: what one machine computes, sent around in pieces, with the same bits."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
