"""A store of buckets as S3 has it, in this process, for tests; and a place for copies."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from moto.moto_server.threaded_moto_server import ThreadedMotoServer
from pyarrow import fs

from broadmatch.io import buckets

BUCKET = "ads-bucket"
ADDRESS = f"s3://{BUCKET}"


@contextlib.contextmanager
def object_store(copies: Path) -> Iterator[dict[str, str]]:
    """A store with an empty bucket; gives what a process needs in its environment to use it, as this one does."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    keys = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}
    environment = keys | {"AWS_ENDPOINT_URL": f"http://{host}:{port}", "BROADMATCH_COPIES": str(copies)}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        buckets._connected.cache_clear()
        fs.S3FileSystem(endpoint_override=environment["AWS_ENDPOINT_URL"], allow_bucket_creation=True).create_dir(
            BUCKET
        )
        try:
            yield environment
        finally:
            buckets._connected.cache_clear()
            server.stop()
