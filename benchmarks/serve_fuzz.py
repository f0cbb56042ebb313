"""Whatever is sent to a server: no crash, no answer of 5xx, none over a second, no memory that grows.

    python -m benchmarks.serve_fuzz --cases 1000000          # mutated bodies
    python -m benchmarks.serve_fuzz --schema 20000           # schemathesis over the OpenAPI document (extra [bench])

A server of a small shop runs in a process of its own, with an event log on disk. Mutated bodies are cut, joined, nested
deeply, given huge numbers, bytes that are no UTF-8, halves of surrogates, other types and long texts. Of schemathesis
all checks of the answers count: status, type, headers and schema as documented, no 5xx, and bodies that break the
schema are refused.
"""

import argparse
import http.client
import json
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.common import tell
from benchmarks.serve_shop import Server, make_shop

BODIES: dict[str, list[Any]] = {
    "/v1/match": [
        {"query": "cheap red shoes", "context": {"city": "rome", "hour": 3}, "session": "s", "key": "00000000000000ff"},
        {"query": "boots", "limit": 20, "explain": True},
    ],
    "/v1/predict": [{"rows": [{"query": "red shoes", "city": "rome", "position": 1}, {"ad": "a1", "hour": 2.5}]}],
    "/v1/events": [
        {"kind": "clicks", "impression": "i1"},
        [{"kind": "impressions", "id": "i2", "columns": {"ad": "x"}}, {"kind": "bounces", "impression": "i2"}],
        {"kind": "conversions", "impression": "i1", "value": 3.5, "id": "o1", "time": 1e9},
    ],
    "/v1/recommend": [
        {"html": "<title>Red shoes</title><p>order shoes", "k": 5, "revealed": ["shoes"], "explain": "red shoes"},
        {"text": "order a taxi", "expand": True, "explain": True},
        {"address": "https://shop.example/", "k": 2},
    ],
    "/v1/ads/changes": [
        {"changes": [{"change": "put", "ad": "new", "phrases": [{"phrase": "hats", "match": "broad", "bid": 0.5}]}]},
        {"changes": [{"change": "negatives", "ad": "a1", "negatives": [{"phrase": "free", "match": "exact"}]}]},
    ],
}  # fmt: skip
_NUMBERS = (b"1e999", b"-1e400", b"1" * 400, b"0.1e-999", b"9223372036854775808", b"-0", b"NaN", b"Infinity", b"1e308")
_BYTES = (
    b"\xff",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\x00",
    b"\\ud800",
    b"\\udc00\\ud800",
    b"\\u0000",
    b"\n",
    b"\xf4\x90\x80\x80",
)
_VALUES = (
    b"null",
    b"true",
    b"[]",
    b"{}",
    b'""',
    b"-1",
    b'"' + b"x" * 20_000 + b'"',
    b'[{"a":[{}]}]',
    b'"\xe2\x80\xa8"',
)


def mutated_bodies(seed: int, n: int) -> Iterator[tuple[str, bytes]]:
    """Bodies that are nearly right, with the paths that they are for."""
    rng = random.Random(seed)
    whole = [(path, json.dumps(body).encode()) for path, bodies in BODIES.items() for body in bodies]
    for _ in range(n):
        path, body = rng.choice(whole)
        for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
            body = _mutated(rng, body, rng.choice(whole)[1])
        yield path, body


def _mutated(rng: random.Random, body: bytes, other: bytes) -> bytes:
    """One change of a body."""
    at, to = sorted((rng.randrange(len(body) + 1), rng.randrange(len(body) + 1)))
    values = [i for i, byte in enumerate(body) if byte in b":,["]
    value = rng.choice(values) + 1 if values else 0
    end = min((body.find(mark, value) for mark in b",}]" if body.find(mark, value) >= 0), default=len(body))
    match rng.randrange(8):
        case 0:
            return body[:at]
        case 1:
            return body[:at] + body[to:]
        case 2:
            return body[:at] + other[rng.randrange(len(other)) :]
        case 3:
            return body[:value] + rng.choice(_NUMBERS) + body[end:]
        case 4:
            return body[:at] + rng.choice(_BYTES) + body[at:]
        case 5:
            return body[:value] + rng.choice(_VALUES) + body[end:]
        case 6:
            depth = rng.choice((3, 100, 1_000, 20_000))
            return body[:value] + rng.choice((b"[", b'{"a":')) * depth + body[end:]
        case _:
            return bytes(byte ^ (1 << rng.randrange(8)) if rng.random() < 0.02 else byte for byte in body)


def send_mutated(server: Server, n: int, seed: int) -> None:
    """Send mutated bodies one after the other over one connection, and say what became of them."""
    statuses, slowest, memory = Counter[int](), (0.0, ""), list[int]()
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    for i, (path, body) in enumerate(mutated_bodies(seed, n)):
        started = time.perf_counter()
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        content = answer.read()
        slowest = max(slowest, (time.perf_counter() - started, f"{path} {body[:100]!r}"))
        statuses[answer.status] += 1
        if answer.status >= 500:
            tell(benchmark="serve_fuzz", entry="failure", path=path, status=answer.status, body=repr(body[:300]),
                 answer=content.decode()[:300])  # fmt: skip
        if i % max(1, n // 20) == 0:
            memory.append(server.memory())
    half = len(memory) // 2
    tell(benchmark="serve_fuzz", entry="mutated", cases=n, statuses=dict(sorted(statuses.items())),
         slowest_s=slowest[0], slowest=slowest[1],
         failures=sum(count for status, count in statuses.items() if status >= 500), alive=server.alive(),
         memory_mb=[size >> 20 for size in memory],
         memory_growth=max(memory[half:]) / max(memory[:half]) - 1)  # fmt: skip


class SchemaRun:
    """Cases of schemathesis, each checked as it is answered."""

    def __init__(self) -> None:
        self.counts, self.failures = Counter[str](), list[dict[str, Any]]()

    def check(self, case: Any, name: str, checks: list[Any]) -> None:
        """Send a case, and note what is wrong with its answer."""
        self.counts[name] += 1
        started = time.perf_counter()
        response = case.call(timeout=10)
        took = time.perf_counter() - started
        if response.status_code == 413:  # refused for its size, before anything is known of it
            checks = [one for one in checks if one.__name__ != "negative_data_rejection"]
        try:
            case.validate_response(response, checks=checks)
        except (Exception, BaseExceptionGroup) as error:
            self.failures.append({"operation": name, "why": str(error)[:700]})
        if took > 1:
            self.failures.append({"operation": name, "why": f"took {took:.2f} s"})


def run_schema(server: Server, n: int, seed: int) -> None:
    """Schemathesis over the document: about n cases over all operations that take something."""
    import schemathesis
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import seed as seeded
    from schemathesis import GenerationMode
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks as of

    checks = [not_a_server_error, of.status_code_conformance, of.content_type_conformance,
              of.response_headers_conformance, of.response_schema_conformance]  # fmt: skip
    schema = schemathesis.openapi.from_url(f"{server.address}/v1/openapi.json")
    operations, run = [result.ok() for result in schema.get_all_operations()], SchemaRun()
    takes = [one for one in operations if one.body or one.path_parameters]
    each = max(1, n // (2 * len(takes)))
    for operation in operations:
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            if mode is GenerationMode.NEGATIVE and operation not in takes:
                continue
            used = [*checks, of.negative_data_rejection] if mode is GenerationMode.NEGATIVE else checks
            name, how = operation.label, {"deadline": None, "database": None, "phases": [Phase.generate]}

            @seeded(seed)
            @settings(max_examples=each, suppress_health_check=list(HealthCheck), **how)
            @given(case=operation.as_strategy(generation_mode=mode))
            def test(case: Any) -> None:
                run.check(case, name, used)  # noqa: B023

            test()
    kinds = {(one["operation"], one["why"][:80]): one for one in run.failures}  # one of each kind
    for failure in kinds.values():
        tell(benchmark="serve_fuzz", entry="failure", **failure)
    tell(benchmark="serve_fuzz", entry="schemathesis", cases=run.counts.total(), by_operation=dict(run.counts),
         failures=len(run.failures), alive=server.alive())  # fmt: skip


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=0, help="mutated bodies")
    parser.add_argument("--schema", type=int, default=0, help="cases of schemathesis")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        make_shop(Path(folder) / "shop", small=True)
        with Server(Path(folder) / "shop") as server:
            if given.cases:
                send_mutated(server, given.cases, given.seed)
            if given.schema:
                run_schema(server, given.schema, given.seed)


if __name__ == "__main__":
    main()
