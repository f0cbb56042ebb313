"""Run every benchmark, one after the other: python -m benchmarks [--small] [NAME …]"""

import argparse
import pkgutil
import subprocess
import sys
from pathlib import Path


def main() -> int:
    """Run the named benchmarks, or all; the exit code says whether any failed."""
    names = sorted(m.name for m in pkgutil.iter_modules([str(Path(__file__).parent)]) if not m.name.startswith("_"))
    names.remove("common")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of: {', '.join(names)}")
    parser.add_argument("--small", action="store_true", help="minutes instead of hours, for a first look")
    asked = parser.parse_args()
    if unknown := set(asked.names) - set(names):
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    failed = False
    for name in asked.names or names:
        command = [sys.executable, "-m", f"benchmarks.{name}", *(["--small"] if asked.small else [])]
        failed |= subprocess.run(command, check=False).returncode != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
