from .auction import Auction as Auction
from .auction import AuctionResult as AuctionResult
from .auction import Verdict as Verdict
from .budgets import Budgets as Budgets
from .place_effects import learn_place_effects as learn_place_effects
