"""Where machine code is kept: safely, wherever a process runs, and never longer than its source stays as it is."""

import io
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numba
import pytest

from broadmatch.kernels import cache

FIRST_USE = """
import numpy as np
from broadmatch.kernels.hashing import mix
print(mix(np.uint64(0)))
"""


@pytest.fixture
def no_memory():
    """Forget what was found out about files and folders, before and after."""
    remembered = (cache.places, cache.source_stamp, cache._imported_kernels, cache.say_once)
    for function in remembered:
        function.cache_clear()
    yield
    for function in remembered:
        function.cache_clear()


def test_the_stamp_of_a_kernel_changes_with_its_callees_and_no_other(tmp_path, monkeypatch, no_memory):
    sources = {
        "kernels/callee.py": "y = 1",
        "labels/_outer.py": "from broadmatch.labels import _middle as kernels",
        "labels/_middle.py": "from broadmatch.kernels.callee import (\n    x,\n    y,\n)",
        "labels/_other.py": "from broadmatch.kernels.another import z",
        "labels/model.py": "",
    }
    monkeypatch.setattr(cache, "_PACKAGE", tmp_path)
    for name, text in sources.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)

    def stamps():
        cache.source_stamp.cache_clear()
        cache._imported_kernels.cache_clear()
        return {name: cache.source_stamp(tmp_path / "labels" / f"_{name}.py") for name in ("outer", "middle", "other")}

    before = stamps()
    os.utime(tmp_path / "kernels/callee.py", ns=(1, 1))  # a copy of an image has other times
    assert stamps() == before
    (tmp_path / "kernels/callee.py").write_text("y = 2")
    assert {name for name, stamp in stamps().items() if stamp != before[name]} == {"outer", "middle"}


def run(package, home, **environment):
    """Use a kernel for the first time, as a user to whom nothing belongs; what is said, but that it compiles."""
    variables = {"PATH": os.environ["PATH"], "PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"} | environment
    as_nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
    command = [*as_nobody, sys.executable, "-W", "error", "-c", FIRST_USE]
    done = subprocess.run(command, env=variables, cwd=home, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr
    return "".join(line for line in done.stderr.splitlines(True) if not line.startswith("Compiling kernels"))


@pytest.fixture
def installed():
    """A copy of the package that may not be written to, and a folder that may."""
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        pytest.skip("root may write everywhere, and there is no setpriv to be somebody else")
    with tempfile.TemporaryDirectory() as folder:
        package, home = Path(folder, "site-packages"), Path(folder, "home")
        Path(folder).chmod(0o755)
        home.mkdir()
        home.chmod(0o777)
        source = Path(cache.__file__).parents[1]
        shutil.copytree(
            source / "kernels", package / "broadmatch/kernels", ignore=shutil.ignore_patterns("__pycache__")
        )
        shutil.copy(source / "__init__.py", package / "broadmatch")
        for below in (package / "broadmatch/kernels", package / "broadmatch", package):
            below.chmod(0o555)
        yield package, home
        for below in (package, package / "broadmatch", package / "broadmatch/kernels"):
            below.chmod(0o755)


def test_an_installation_that_cannot_be_written_to(installed):
    package, home = installed
    # Nothing but a folder for temporary files: no home, a user without a name.
    temporary = {"TMPDIR": str(home)}
    said = run(package, home, **temporary)
    (own,) = home.iterdir()
    assert said == f"Compiled kernels are kept in {own}, as {package / 'broadmatch'} cannot be written to.\n"
    assert own.stat().st_mode & 0o777 == 0o700
    assert run(package, home, **temporary) == ""  # it was found there
    # A folder of the user's is preferred, one that is asked for more so.
    mine, asked = home / "cache", home / "asked"
    assert f"kept in {mine / 'broadmatch'}, as" in run(package, home, XDG_CACHE_HOME=str(mine), **temporary)
    assert run(package, home, NUMBA_CACHE_DIR=str(asked), **temporary) == ""
    assert list(asked.glob("*/hashing.mix.*"))


def test_code_that_others_could_have_written_is_not_run(installed):
    package, home = installed
    run(package, home, TMPDIR=str(home))
    (own,) = home.iterdir()
    own.chmod(0o777)
    said = run(package, home, TMPDIR=str(home))
    assert said.startswith(
        f"Compiled kernels are not kept, as {package / 'broadmatch'} cannot be written to; set NUMBA_"
    )
    own.chmod(0o700)
    own.rename(home / "elsewhere")
    own.symlink_to(home / "elsewhere")
    assert "are not kept" in run(package, home, TMPDIR=str(home))


def test_what_was_compiled_beside_the_source_is_used_where_it_cannot_be_written_to(installed):
    package, home = installed
    beside = package / "broadmatch" / "kernels"
    beside.chmod(0o777)
    assert run(package, home) == ""
    assert list(beside.glob("__pycache__/hashing.mix.*"))
    beside.chmod(0o555)
    (beside / "__pycache__").chmod(0o555)
    assert run(package, home, TMPDIR=str(home)) == ""
    assert not list(home.rglob("*.nb*"))


def test_kernels_that_were_compiled_need_no_implementations_of_numpy(tmp_path):
    (tmp_path / "_made.py").write_text(
        "import numpy as np\nfrom broadmatch.kernels import kernel\n\n\n"
        "@kernel\ndef total(n: int) -> float:\n"
        "    made = np.zeros(n)\n    for i in range(n):\n        made[i] += i\n    return made[n - 1]\n"
    )
    code = "import sys; from _made import total; print(total(3), 'numba.np.arrayobj' in sys.modules)"
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(tmp_path)}
    outputs = [
        subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True).stdout
        for _ in range(2)
    ]
    assert outputs == ["2.0 True\n", "2.0 False\n"]


def test_an_index_of_types_that_are_gone_begins_anew(tmp_path):
    """A cache of an older version names classes that were renamed since: numba cannot even read its index."""
    file = numba.core.caching.IndexDataCacheFile(str(tmp_path), "kernel", "stamp")
    file.save("key", "old")
    index = next(tmp_path.glob("*.nbi"))
    version, rest = index.read_bytes(), b"cbroadmatch.kernels.cache\nGone\n."
    stream = io.BytesIO(version)
    pickle.load(stream)  # noqa: S301 - numba's own format, in a folder of this test
    index.write_bytes(version[: stream.tell()] + rest)
    with pytest.raises(AttributeError):
        file.load("key")
    cache.KernelCache._keep(file, "key", "new")
    assert file.load("key") == "new"
