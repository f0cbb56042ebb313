"""The ad engine by its parts, one after the other: candidates as rows of a log, the click model, the auction."""

import numpy as np
import pyarrow as pa

from broadmatch.ads import MATCH_TYPES


def log_of(index, candidates, queries, context, positions=None):
    """The candidates of queries as the rows of a log; all that is known of an ad comes from its record in the store."""
    rows = []
    for q, query in enumerate(queries):
        for i in range(candidates.ptr[q], candidates.ptr[q + 1]):
            record = index.record(int(candidates.ad[i]))
            campaign = None if record.campaign < 0 else index._record("campaigns", record.campaign)
            phrase = {phrase.number: phrase.text for phrase in record.phrases}[int(candidates.phrase[i])]
            rows.append(
                {
                    "query": query,
                    **{name: values[q] for name, values in context.items()},
                    "ad": record.name,
                    "advertiser": record.advertiser or (campaign.advertiser if campaign else ""),
                    "campaign": campaign.name if campaign else "",
                    "page": record.page,
                    "title": record.title,
                    "text": record.text,
                    "phrase": phrase,
                    "match": MATCH_TYPES[candidates.match[i]],
                    "position": 1,
                }
            )
    return rows


def answers(engine, queries, context, limit, key=None, in_budget=None):
    """(candidates, probability, uncertainty, result, rows of the log) of queries that are normalised."""
    found = engine.index.match_many(queries, limit, normalised=True)
    rows = log_of(engine.index, found, queries, context)
    if not rows:
        p = u = np.empty(0)
    else:
        batch = pa.RecordBatch.from_pylist(rows)
        p, u = engine.clicks.predict_many(batch), engine.clicks.uncertainty_many(batch)
    # an ad without an advertiser is its own
    owners = [row["advertiser"] or (row["ad"],) for row in rows]
    numbers = {owner: i for i, owner in enumerate(dict.fromkeys(owners))}
    result = engine.auction.run(
        found.bid, p, offsets=found.ptr, advertiser=np.array([numbers[owner] for owner in owners], np.int64),
        uncertainty=u, key=key, in_budget=in_budget,
    )  # fmt: skip
    return found, p, u, result, rows
