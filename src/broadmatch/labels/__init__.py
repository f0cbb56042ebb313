"""Label models, named as in their papers: rows of features in, ranked labels out."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
