"""Hot paths over a socket: the same answers as by ASGI, and connections that behave, whatever the client does."""

import asyncio
import contextlib
import json
import re
import socket
from collections import Counter

import pytest
import uvicorn

from broadmatch.errors import CannotWrite
from broadmatch.io.event_log.log import Appended
from broadmatch.serve import hot_protocol, requests
from broadmatch.serve.api_keys import ApiKeys, add_key
from broadmatch.serve.app import make_app
from broadmatch.serve.config import ServeConfig

ASGI = "?"
"""What a path ends in that uvicorn answers."""
CLICK = b'{"kind":"clicks","impression":"i"}'
SEARCH = b'{"query":"red shoes","key":"0000000000000007"}'


def request(path, body, *headers, method="POST", version="1.1", kind="application/json"):
    head = [f"{method} {path} HTTP/{version}", "host: x", f"content-length: {len(body)}", f"Content-Type: {kind}"]
    return "\r\n".join([*head, *headers, "", ""]).encode() + body


class Client:
    """A connection."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    async def send(self, *parts):
        for part in parts:
            self.writer.write(part)
            await self.writer.drain()

    async def answer(self):
        """Status, headers but the date, and body."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = [line for line in head[1:-2] if not line.startswith("date: ")]
        size = int(re.search(r"content-length: (\d+)", "\r\n".join(headers))[1])
        return int(head[0].split()[1]), headers, await self.reader.readexactly(size)

    async def ask(self, *parts):
        await self.send(*parts)
        return await self.answer()

    async def is_closed(self):
        return await self.reader.read() == b""


@contextlib.asynccontextmanager
async def serving(app, **settings):
    """A server in this event loop: connects clients, and can be told to end."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(app, http=app.protocol, lifespan="off", log_config=None, **settings)
        server = uvicorn.Server(config)
        server.capture_signals = contextlib.nullcontext
        task = asyncio.create_task(server.serve([listening]))
        while not server.started:
            await asyncio.sleep(0.001)

        clients = []

        async def connect():
            clients.append(Client(*await asyncio.open_connection(*listening.getsockname())))
            return clients[-1]

        connect.server = server
        try:
            yield connect
        finally:
            for client in clients:
                client.writer.close()
        server.should_exit = True
        await asyncio.wait_for(task, 20)


def run(app, work, **settings):
    """Do something with a server."""

    async def all_of_it():
        async with serving(app, **settings) as connect:
            return await work(connect)

    return asyncio.run(asyncio.wait_for(all_of_it(), 60))


@pytest.fixture
def seen(monkeypatch):
    """Which paths were asked the hot way."""
    found, real = [], hot_protocol.HotRequest.begin
    monkeypatch.setattr(hot_protocol.HotRequest, "begin",
                        lambda self, headers: (found.append(self.endpoint.path), real(self, headers))[1])  # fmt: skip
    return found


BODIES = [
    ("/v1/match", SEARCH),
    ("/v1/match", b'{"query":"red shoes","key":"0000000000000007","explain":true}'),
    ("/v1/match", b'{"query":"nothing that anybody bids on"}'[:-1] + b',"key":"0000000000000008"}'),
    ("/v1/match", b'{"query":7}'),
    ("/v1/match", b'{"query":"red","context":{"position":1}}'),
    ("/v1/match", b"{"),
    ("/v1/match", b""),
    ("/v1/match", b"\xff" * 10),
    ("/v1/match", b"[" * 60_000),
    ("/v1/match", b" " * ((64 << 10) + 1)),
    ("/v1/predict", b'{"rows":[{"query":"red shoes","city":"rome"}]}'),
    ("/v1/predict", json.dumps({"rows": [{"query": "red", "hour": i % 24} for i in range(300)]}).encode()),
    ("/v1/predict", b'{"rows":7}'),
    ("/v1/events", CLICK),
    ("/v1/events", b"[" + b",".join([CLICK] * 3) + b"]"),
    ("/v1/events", b'{"kind":"sales"}'),
    ("/v1/events", json.dumps([{"kind": "clicks", "impression": f"i{i}"} for i in range(700)]).encode()),
]


def test_answers_are_the_same_bytes_as_by_asgi(app, sink, seen):
    async def work(connect):
        for path, body in BODIES:
            sink.ids.clear()
            hot = await (await connect()).ask(request(path, body))
            sink.ids.clear()
            assert await (await connect()).ask(request(path + ASGI, body)) == hot, (path, body[:50])
            counts[path.removeprefix("/v1/"), hot[0]] += 2
        client = await connect()
        assert (await client.ask(request("/v1/match", SEARCH, kind="text/plain")))[0] == 415
        assert await client.is_closed()
        for kind in ("Application/JSON; charset=utf-8", " application/json "):
            assert (await (await connect()).ask(request("/v1/match", SEARCH, kind=kind)))[0] == 200

    counts = Counter({("match", 200): 2, ("match", 415): 1})
    run(app, work)
    assert {status for _, status in counts} == {200, 400, 413, 415, 422}
    assert len(seen) == len(BODIES) + 3
    metrics = app.metrics.page().decode()
    for (name, status), n in counts.items():
        assert f'broadmatch_request_seconds_count{{endpoint="{name}",status="{status}"}} {n}.0' in metrics


def test_keys_and_rates_hold(shop, live, sink, seen):
    path = shop.parent / "hot-keys.json"
    serve, read = add_key(path, "serve", "serve", rate=2.0), add_key(path, "read", "read")
    app = make_app(ServeConfig(folder=shop), live, sink, keys=ApiKeys.at(path))

    async def work(connect):
        client, found = await connect(), []
        for key in (serve, read, "bm_" + "x" * 43, None, serve, serve):
            more = () if key is None else (f"Authorization: Bearer {key}",)
            found.append(await client.ask(request("/v1/match", SEARCH, *more)))
        return found

    found = run(app, work)
    assert [status for status, *_ in found] == [200, 403, 401, 401, 200, 429]
    assert any(line.startswith("retry-after: ") for line in found[-1][1])
    assert len(seen) == 6


def test_what_is_not_plainly_hot_goes_by_asgi(app, seen):
    async def work(connect):
        client = await connect()
        assert (await client.ask(request("/v1/health", b"", method="GET")))[0] == 200
        assert (await client.ask(request("/v1/match", b"", method="GET")))[0] == 405
        assert (await client.ask(request("/v1/nothing", b"{}")))[0] == 404
        await client.send(request("/v1/match", SEARCH, "Expect: 100-continue"))
        assert await client.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert (await client.answer())[0] == 200
        await (await connect()).ask(request("/v1/match", SEARCH, "Connection: upgrade", "Upgrade: h2c"))
        assert seen == []
        assert (await client.ask(request("/v1/match", SEARCH)))[0] == 200
        assert seen == ["/v1/match"]

    run(app, work)


def test_connections_are_kept_or_closed(app):
    async def work(connect):
        client = await connect()
        for _ in range(3):
            status, headers, _ = await client.ask(request("/v1/match", SEARCH))
            assert status == 200 and "connection: close" not in headers
        assert "connection: close" in (await client.ask(request("/v1/match", SEARCH, "Connection: close")))[1]
        assert await client.is_closed()
        old = await connect()
        assert "connection: close" in (await old.ask(request("/v1/match", SEARCH, version="1.0")))[1]
        assert await old.is_closed()
        assert connect.server.server_state.total_requests == 5

    run(app, work)


def test_requests_that_are_sent_together_are_answered_in_order(app):
    asked = [b'{"query":"red shoes","key":"%016x"}' % i for i in range(1, 30)]
    paths = ["/v1/match" if i % 3 else "/v1/match" + ASGI for i in range(len(asked))]

    async def work(connect):
        client = await connect()
        together = b"".join(request(path, body) for path, body in zip(paths, asked, strict=True))
        await client.send(together[:1000], together[1000:1003], together[1003:])
        return [json.loads((await client.answer())[2])["search"] for _ in asked]

    assert run(app, work) == [f"{i:016x}" for i in range(1, 30)]


def test_a_body_may_come_in_pieces_but_not_for_ever(app, monkeypatch):
    async def work(connect):
        whole, client = request("/v1/match", SEARCH), await connect()
        for at in (1, 30, len(whole) - len(SEARCH), len(whole) - 1):
            await client.send(whole[:at])
            await asyncio.sleep(0.005)
            assert (await client.ask(whole[at:]))[0] == 200
        app.requests.end_late()
        late, gone = await connect(), await connect()
        monkeypatch.setattr(requests, "SLOWEST_BODY", -1.0)
        for one in (late, gone):
            await one.send(whole[:-1])
        await until(lambda: len(app.requests._reading) == 2)
        gone.writer.close()
        await until(lambda: len(app.requests._reading) == 1)
        app.requests.end_late()
        app.requests.end_late()
        status, headers, body = await late.answer()
        assert status == 408 and "connection: close" in headers and b"within" in body
        assert await late.is_closed()
        assert not app.requests._reading and not app.requests._late

    run(app, work)


class HeldSink:
    """Acknowledges when it is told to."""

    def __init__(self):
        self.waiting = []

    def submit(self, events):
        done = asyncio.get_running_loop().create_future()
        self.waiting.append((done, Appended(len(events), 0)))
        return done

    def go_on(self, error=None):
        for done, appended in self.waiting:
            done.set_exception(error) if error else done.set_result(appended)
        self.waiting.clear()

    async def close(self):
        pass


@pytest.fixture
def held():
    return HeldSink()


@pytest.fixture
def slow_app(shop, live, held):
    return make_app(ServeConfig(folder=shop), live, held)


async def until(what):
    while not what():
        await asyncio.sleep(0.001)


def test_nobody_is_answered_before_the_log_and_those_who_left_disturb_nobody(slow_app, held, caplog):
    async def work(connect):
        clients = [await connect() for _ in range(4)]
        for path, client in zip(("/v1/match", "/v1/match", "/v1/events", "/v1/events"), clients, strict=True):
            await client.send(request(path, SEARCH if "match" in path else CLICK))
        await until(lambda: len(held.waiting) == 3)
        clients[1].writer.close()
        clients[3].writer.close()
        await asyncio.sleep(0.01)
        assert not clients[0].reader._buffer and not clients[2].reader._buffer
        held.go_on()
        assert [(await clients[i].answer())[0] for i in (0, 2)] == [200, 200]
        await clients[0].send(request("/v1/match", SEARCH))
        await until(lambda: held.waiting)
        held.go_on(CannotWrite("The disk is full; make room."))
        status, headers, body = await clients[0].answer()
        assert status == 503 and "retry-after: 1" in headers and b"The disk is full" in body

    run(slow_app, work)
    assert not caplog.records


def test_a_server_that_ends_answers_first(slow_app, held):
    async def work(connect):
        client, idle = await connect(), await connect()
        await client.send(request("/v1/match", SEARCH))
        await until(lambda: held.waiting)
        connect.server.should_exit = True
        assert await idle.is_closed()
        held.go_on()
        status, headers, _ = await client.answer()
        assert status == 200 and "connection: close" in headers
        assert await client.is_closed()

    run(slow_app, work)


def test_a_client_that_does_not_read_is_not_answered_without_end(app, sink):
    body, n = json.dumps({"rows": [{"query": "red"}] * 3000}).encode(), 100

    async def work(connect):
        client = await connect()
        (protocol,) = connect.server.server_state.connections
        sending = asyncio.create_task(client.send(*[request("/v1/predict", body)] * n))
        await until(lambda: protocol.flow.write_paused)
        await asyncio.sleep(0.05)
        assert protocol.transport.get_write_buffer_size() < 1 << 20
        sizes = [len((await client.answer())[2]) for _ in range(n)]
        await sending
        assert len(set(sizes)) == 1

    run(app, work)


def test_an_error_while_one_is_answered_spoils_no_other(app, monkeypatch, caplog):
    real = hot_protocol.HotProtocol._write

    def write(self, asked, answer):
        if b"0000000000000001" in answer.body:
            raise RuntimeError("secret")
        real(self, asked, answer)

    monkeypatch.setattr(hot_protocol.HotProtocol, "_write", write)

    async def work(connect):
        one, two = await connect(), await connect()
        await one.send(request("/v1/match", b'{"query":"red shoes","key":"0000000000000001"}'))
        assert (await two.ask(request("/v1/match", b'{"query":"red shoes","key":"0000000000000002"}')))[0] == 200
        assert await one.is_closed()

    run(app, work)
    assert "could not be answered" in caplog.text and "secret" not in caplog.text
