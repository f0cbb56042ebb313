"""What our server is measured beside: a bare ASGI answer, and `match` as one writes it with FastAPI and pydantic."""

import json
import secrets
import time
from typing import Any

BODY = b"x" * 200


async def bare(scope: Any, receive: Any, send: Any) -> None:
    """200 bytes for whatever comes."""
    if scope["type"] != "http":
        return
    await receive()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"200")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": BODY})


def fastapi_app(live: Any) -> Any:
    """The same `match`, with models of pydantic, and each impression built as a dict and logged as JSON, to nowhere."""
    from fastapi import FastAPI
    from pydantic import BaseModel, Field

    from broadmatch.serve.impression_ids import Charge, ImpressionIds, campaign_key

    class Asked(BaseModel):
        query: str = Field(max_length=10_000)
        context: dict[str, str | int | float | bool | None] = Field(default={}, max_length=100)
        session: str | None = None
        key: str | None = None
        limit: int = Field(default=200, ge=1, le=200)

    class Shown(BaseModel):
        impression: str
        place: int
        ad: str
        page: str
        title: str
        text: str
        phrase: str
        match: str
        bid: float
        price: float
        probability: float
        uncertainty: float

    class Answered(BaseModel):
        search: str
        versions: dict[str, str]
        places: list[Shown]

    app, ids = FastAPI(), ImpressionIds(b"0" * 32)

    @app.get("/v1/ready")
    async def ready() -> dict[str, str]:
        return {"status": "ok"}

    @app.post("/v1/match", response_model=Answered)
    async def match(asked: Asked) -> Answered:
        service = live.current
        arm = service.arms[0]
        key = secrets.randbits(64)
        found = arm.engine.answer(asked.query, asked.context, key=key, limit=asked.limit)
        tables, now, places, events = found.arrays.ads, time.time_ns() // 1000, [], []
        numbers = found.arrays.result.row[0]
        for place, row in zip(found.places, numbers.tolist(), strict=False):
            columns = tables.columns(found.arrays.candidates.ad.item(row))
            name = ids.make(Charge(key, place.place, campaign_key(columns["campaign"]), place.price))
            about = place._asdict() | {"impression": name}
            places.append(Shown(**about, page=columns["page"], title=columns["title"], text=columns["text"]))
            events.append(
                json.dumps({"id": name, "time": now, "query": found.query, **asked.context, **columns, **about})
            )
        versions = {"arm": arm.name, "clicks": arm.version, "index": tables.view.postings}
        return Answered(search=f"{key:016x}", versions=versions, places=places)

    return app
