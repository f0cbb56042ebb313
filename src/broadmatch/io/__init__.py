"""One way in and out of files: logs, pages, tables, matrices, models."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
