"""Harvest a generated click log in a process of its own: seconds, rows a second, peak memory.

    python -m benchmarks.harvest --small          # a million rows
    python -m benchmarks.harvest                  # 100 million rows, Parquet; limit: 4 GB in all
    python -m benchmarks.harvest --format csv     # the same as CSV

The log has Zipf queries in several spellings, each leading to a few pages, over thirty days, some rows bad.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FILE_ROWS = 10_000_000
LIMIT_GB = 4.0


def generate(folder: Path, rows: int, format: str, threads: int) -> None:
    """Write the log, ten million rows a file; the same rows on every machine."""
    from broadmatch.io.duck import connect

    n_queries, n_pages = max(rows // 5, 1000), max(rows // 50, 100)
    options = "FORMAT parquet, COMPRESSION zstd" if format == "parquet" else "FORMAT csv, HEADER true"
    for start in range(0, rows, FILE_ROWS):
        name = "'" + str(folder / f"part{start // FILE_ROWS:03}.{format}").replace("'", "''") + "'"
        with connect("1GB", folder, threads) as db:
            # Each uniform number is a hash; exp(u ln n) of it has the density 1/x of Zipf's law.
            db.execute("CREATE MACRO uniform(i) AS hash(i) / 18446744073709551615.0")
            db.execute("CREATE MACRO zipf(i, n) AS CAST(floor(exp(uniform(i) * ln(n))) AS BIGINT)")
            db.execute("CREATE MACRO word(q) AS lower(hex(q * 2654435761 % 4294967296))")
            db.execute(f"""
                COPY (
                    FROM (FROM range({start}, {min(start + FILE_ROWS, rows)}) AS r(i)
                        SELECT i, zipf(i, {n_queries}) AS q, CAST(floor(30 * uniform(i + 1e12) ** 3) AS BIGINT) AS k)
                    SELECT
                        CASE WHEN i % 9973 = 0 THEN ' '
                             WHEN i % 7 = 0 THEN concat('Buy ', upper(word(q)), ' - near me!')
                             WHEN i % 11 = 0 THEN concat('köp ', word(q))
                             ELSE concat('buy ', word(q), ' near me') END AS query,
                        concat('https://shop.example/', zipf(q * 31 + k, {n_pages}), '.html') AS page,
                        make_timestamp(CAST(1704067200000000 + (i % 2592000) * 1000000 AS BIGINT)) AS time
                ) TO {name} ({options})""")


def measure(folder: str, memory_limit: str, threads: int) -> None:
    """Harvest `folder` and print what it took; run in a process of its own."""
    from broadmatch.harvest import harvest
    from broadmatch.io import ClickLog

    start = time.perf_counter()
    found = harvest(
        ClickLog(folder),
        since="2024-01-02",
        memory_limit=memory_limit,
        temp_directory=Path(folder).parent,
        n_jobs=threads,
    )
    seconds = time.perf_counter() - start
    print(
        json.dumps(
            {
                "seconds": round(seconds, 1),
                "rows_per_second": round(found.facts["rows"] / seconds),
                "peak_gb": round(peak_bytes() / 1e9, 2),
                "labels": len(found.labels),
                "train_pages": len(found.train_pages),
                "test_pages": len(found.test_pages),
                "pairs": found.train_counts.nnz + found.test_counts.nnz,
                **found.facts,
            }
        )
    )


def peak_bytes() -> int:
    """The greatest resident size of this process so far."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main(argv: list[str] | None = None) -> None:
    """Generate, harvest, and print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="a million rows")
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--format", choices=["parquet", "csv"], default="parquet")
    parser.add_argument("--memory-limit", default="2GB", help="what DuckDB may take")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--folder", help="where the temporary log is made, instead of the system's place")
    options = parser.parse_args(argv)
    rows = 1_000_000 if options.small else options.rows
    with tempfile.TemporaryDirectory(prefix="harvest-", dir=options.folder) as temporary:
        folder = Path(temporary) / "log"
        folder.mkdir()
        start = time.perf_counter()
        generate(folder, rows, options.format, options.threads)
        made = time.perf_counter() - start
        disk = sum(file.stat().st_size for file in folder.iterdir())
        arguments = f"{str(folder)!r}, {options.memory_limit!r}, {options.threads}"
        call = f"from benchmarks.harvest import measure; measure({arguments})"
        done = subprocess.run([sys.executable, "-c", call], check=True, capture_output=True, text=True)
    result = json.loads(done.stdout.splitlines()[-1])
    print(
        json.dumps(
            {
                "benchmark": "harvest",
                "rows": rows,
                "format": options.format,
                "memory_limit": options.memory_limit,
                "log_gb": round(disk / 1e9, 2),
                "generated_in_seconds": round(made, 1),
                **result,
                "within_limit": result["peak_gb"] <= LIMIT_GB,
            }
        )
    )


if __name__ == "__main__":
    main()
