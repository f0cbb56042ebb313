"""What is known of ads by number, from their records one by one."""

import math


def columns_of(ads, campaigns, n_ads, n_campaigns, n_phrases):
    """{column: values by number} of {number: AdRecord}; advertisers by name."""
    found = {
        "name": [""] * n_ads, "campaign": [-1] * n_ads, "advertiser": [""] * n_ads, "page": [""] * n_ads,
        "title": [""] * n_ads, "text": [""] * n_ads, "campaigns": [""] * n_campaigns,
        "campaign_advertiser": [""] * n_campaigns, "phrase": [""] * n_phrases,
        "budget": [math.inf] * n_campaigns,
    }  # fmt: skip
    for number, record in campaigns.items():
        found["campaigns"][number], found["campaign_advertiser"][number] = record.name, record.advertiser
        found["budget"][number] = record.budget
    for number, record in ads.items():
        for name in ("name", "campaign", "page", "title", "text"):
            found[name][number] = getattr(record, name)
        inherited = campaigns[record.campaign].advertiser if record.campaign >= 0 else ""
        found["advertiser"][number] = record.advertiser or inherited
        for phrase in record.phrases:
            found["phrase"][phrase.number] = phrase.text
    return found
