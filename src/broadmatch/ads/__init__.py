"""From a query to the ads that are shown: the auction, budgets over the day, and what a place is worth."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
