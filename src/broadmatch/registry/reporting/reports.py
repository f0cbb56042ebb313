"""Reports of what is consumed, on their way to the index: on disk first, then sent in the background."""

import json
import logging
import threading
import uuid
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from broadmatch.io.files import replacing_file
from broadmatch.registry.names import shown_name
from broadmatch.registry.records import DAY, ConsumptionReport, now_us
from broadmatch.registry.reporting.addresses import spool_of
from broadmatch.registry.reporting.delivery import SUFFIX, Courier, files_in

log = logging.getLogger("broadmatch")
_RETRY_SECONDS = 60.0


class Reporter:
    """Takes reports and hands them to an index, by a process of its own (`delivery`).

    `report` returns when the report is on disk; it stays there until the index has it, also when this process is
    killed: whoever reports next from the same `spool_folder` sends it. If the disk is full, the report is kept in
    memory; if the index does not take it either before `close`, it is counted as lost and said so.

    >>> import tempfile
    >>> from broadmatch.registry import SignalIndex
    >>> folder = Path(tempfile.mkdtemp())
    >>> index = SignalIndex.open(folder / "signals")
    >>> with Reporter(str(folder / "signals"), folder / "spool") as reporter:
    ...     reporter.report(ConsumptionReport(model="ctr", signals={"price": 0.98}))
    >>> len(index.consumers("price")), reporter.counts
    (1, {'sent': 1, 'waiting': 0, 'lost': 0})
    """

    def __init__(self, address: str, spool_folder: Path | None = None) -> None:
        self.address = address
        self.spool_folder = spool_of(address) if spool_folder is None else spool_folder
        self._unkept: list[ConsumptionReport] = []
        self._latest: dict[tuple[str, str], ConsumptionReport] = {}
        self._n_sent = self._n_lost = 0
        self._said_down = False
        self._courier = Courier(address, self.spool_folder)
        self._wake, self._lock, self._ending = threading.Event(), threading.Lock(), False
        self._thread = threading.Thread(target=self._run, name="signal reports", daemon=True)
        self._thread.start()

    @property
    def counts(self) -> dict[str, int]:
        """How many reports were sent by this reporter, wait to be sent, and were lost."""
        return {
            "sent": self._n_sent,
            "waiting": len(files_in(self.spool_folder)) + len(self._unkept),
            "lost": self._n_lost,
        }

    def report(self, report: ConsumptionReport) -> None:
        """Keep a report, and send it soon; while this process runs, it holds, and is sent again every day."""
        self._latest[report.model, report.use] = report
        try:
            with replacing_file(self.spool_folder / f"{report.seen:020d}-{report.id}{SUFFIX}") as out:
                out.write(json.dumps(report.to_dict()).encode())
        except OSError as error:
            log.warning("A report on signals cannot be kept on disk (%s); it is sent from memory.", error)
            with self._lock:
                self._unkept.append(report)
        self._wake.set()

    def close(self, seconds: float = 10.0) -> None:
        """Try once more to send what waits, for up to so many seconds; say what could not be sent."""
        self._ending = True
        self._wake.set()
        self._thread.join(seconds)
        with self._lock:
            lost, self._unkept = self._unkept, []
        if lost:
            self._n_lost += len(lost)
            n_edges = sum(len(one.signals) for one in lost)
            which = ", ".join(shown_name(one.model) for one in lost[:5])
            log.error(
                "%d reports with %d signals are lost (%s): neither disk nor index took them.", len(lost), n_edges, which
            )
        if n_waiting := len(files_in(self.spool_folder)):
            log.warning("%d reports on signals wait in %s; the next run sends them.", n_waiting, self.spool_folder)

    def __enter__(self) -> "Reporter":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _run(self) -> None:
        while True:
            woken = self._wake.wait(_RETRY_SECONDS)
            self._wake.clear()
            ending = self._ending
            for latest in list(self._latest.values()):
                if not ending and now_us() - latest.seen >= DAY:
                    self.report(replace(latest, seen=now_us(), id=uuid.uuid4().hex, reason=""))
            try:
                self._send_all()
                if ending or not (woken or self.counts["waiting"]):  # nothing came for a while
                    self._courier.close()
            except OSError as error:
                self._say_down(str(error))
            except Exception:  # the learner goes on, whatever happens here
                log.exception("Reports on signals cannot be sent.")
            if ending:
                return

    def _send_all(self) -> None:
        if not files_in(self.spool_folder) and not self._unkept:
            return
        with self._lock:
            in_memory = list(self._unkept)
        done = self._courier.deliver(in_memory)
        self._n_sent += done.n_sent
        with self._lock:
            self._unkept = [one for one in self._unkept if one not in in_memory[: done.n_of_memory]]
        for text in done.damaged:
            log.error("%s", text)
        self._say_down(done.error)

    def _say_down(self, why: str | None) -> None:
        """Say that the index cannot be reached, once and not every minute."""
        if why is not None and not self._said_down:
            log.warning("%s Reports on signals wait in %s.", why, self.spool_folder)
        self._said_down = why is not None
