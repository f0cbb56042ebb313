"""From phrases to served ads: expansion of phrases, inventory, index, auctions, budgets."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
