"""Ads that match a query, by going through all of them: the rules of match types, negatives, order and limit."""

from broadmatch.ads import MATCH_TYPES, is_match


def candidates(ads, campaigns, query, limit):
    """(number, phrase, bid, match) of the ads that match, highest bid first, then by number.

    ads: number -> (campaign or None, [(phrase number, words, match, bid)], [(words, match)], [(query words, phrase
    number)]); campaigns: name -> [(words, match)]. An ad stands once, by its highest bid, then match type, then phrase.
    """
    found = []
    for number, (campaign, phrases, negatives, extended) in ads.items():
        bids = {phrase: bid for phrase, _, _, bid in phrases}
        rows = [(-bid, MATCH_TYPES.index(match), phrase) for phrase, words, match, bid in phrases
                if is_match(words, match, query)]  # fmt: skip
        rows += [(-bids[phrase], 3, phrase) for words, phrase in extended if words == query]
        own = [*negatives, *campaigns.get(campaign, [])]
        if rows and not any(is_match(words, match, query) for words, match in own):
            bid, match, phrase = min(rows)
            found.append((bid, number, phrase, match))
    return [(number, phrase, -bid, match) for bid, number, phrase, match in sorted(found)[:limit]]
