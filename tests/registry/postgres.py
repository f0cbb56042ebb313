"""A PostgreSQL of its own for the tests: in a temporary folder, on a socket, as a user that is not root."""

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

USER = "nobody"


def binaries():
    """The folder with initdb, of Debian's package or on the path; None if there is none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: int(p.parts[-3].split(".")[0]))
    where = found[-1] if found else shutil.which("initdb")
    return None if where is None else Path(where).parent


def as_user():
    """What Popen needs to run as somebody else than root, who may not run PostgreSQL."""
    if os.getuid() != 0:
        return {}
    user = pwd.getpwnam(USER)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


@contextlib.contextmanager
def postgresql():
    """A server that runs while the block does; gives the address of its first database."""
    place, run_as = binaries(), as_user()
    folder = Path(tempfile.mkdtemp(prefix="broadmatch-pg-"))
    try:
        if run_as:
            os.chown(folder, run_as["user"], run_as["group"])
        data, options = folder / "data", f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync=off"
        quiet = {"stdout": subprocess.DEVNULL, "check": True, "cwd": folder, "stdin": subprocess.DEVNULL, **run_as}
        subprocess.run([place / "initdb", "-D", data, "-U", "tests", "-A", "trust", "-E", "UTF8", "--no-sync"], **quiet)
        control = [place / "pg_ctl", "-D", data, "-w", "-l", folder / "log"]
        subprocess.run([*control, "-o", f"{options} -c max_connections=200", "start"], **quiet)
        try:
            yield f"postgresql://tests@/postgres?host={folder}"
        finally:
            subprocess.run([*control, "-m", "immediate", "stop"], **quiet)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
