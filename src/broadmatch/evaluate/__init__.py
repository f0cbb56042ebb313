"""How good predictions are: ranking and click metrics as functions of arrays, and reports with intervals."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
