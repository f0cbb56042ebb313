"""A training run: the same as learning by hand, however the log is cut; and it goes on from where it stood."""

import logging
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from broadmatch.clicks import FTRL, OGD, ClickTraining, ManyModels, SlicedCalibration, Variant
from broadmatch.errors import BadArtifact, BadInput, BadParameter, CannotWrite
from broadmatch.evaluate import log_loss
from broadmatch.io import Rejects
from broadmatch.io import streams as event_stream
from broadmatch.io.checkpoints import Checkpoints
from broadmatch.signals import Categorical, Description, Encoder
from broadmatch.signals.reading import unread_time
from tests.clicks.logs import DESCRIPTION, SIGNALS, same_state, table, written


def trained(source, description=DESCRIPTION, learner=None, **how):
    run = ClickTraining(source, description, FTRL(alpha=0.2, l1=0.01) if learner is None else learner, **how)
    run.run()
    return run


def predictions(folder):
    return pq.read_table(folder).combine_chunks()


def everything(tmp_path, name):
    """All that a run can keep, under names of its own."""
    return {
        "calibration": SlicedCalibration(by=("country",)),
        "refresh": 500,
        "names": True,
        "predictions": tmp_path / f"{name}.predictions",
        "checkpoints": tmp_path / f"{name}.checkpoints",
        "every": 1e-6,
    }


def test_one_pass_is_encoding_and_learning_however_the_log_is_cut(tmp_path):
    rows = table()
    by_hand = FTRL(alpha=0.2, l1=0.01)
    batch = Encoder(DESCRIPTION).encode(rows.combine_chunks().to_batches()[0])
    p = by_hand.learn_many(batch.impressions)
    one = trained(written(rows, tmp_path / "all.parquet"), predictions=tmp_path / "p")
    assert same_state(one.learner.to_state(), by_hand.to_state())
    kept = predictions(tmp_path / "p")
    assert kept["p_model"].to_pylist() == p.astype(np.float32).tolist()
    assert kept["clicked"].to_pylist() == rows["clicked"].to_pylist()
    assert kept["country"].to_pylist() == rows["country"].to_pylist()
    (tmp_path / "cut").mkdir()
    for i, start in enumerate((0, 7, 1200, 2999)):
        stop = (7, 1200, 2999, 3000)[i]
        written(rows.slice(start, stop - start), tmp_path / "cut" / f"{i}.parquet", row_group_size=400)
    assert same_state(trained(tmp_path / "cut").learner.to_state(), by_hand.to_state())
    pa.csv.write_csv(rows, tmp_path / "all.csv")
    assert same_state(trained(tmp_path / "all.csv").learner.to_state(), by_hand.to_state())


def test_a_folder_that_grew_is_as_if_all_had_been_there(tmp_path):
    rows = table()
    (tmp_path / "log").mkdir()
    written(rows.slice(0, 1100), tmp_path / "log" / "1.parquet", row_group_size=300)
    how = everything(tmp_path, "grown")
    trained(tmp_path / "log", subsample=0.5, **how)
    written(rows.slice(1100), tmp_path / "log" / "2.parquet", row_group_size=300)
    how["calibration"] = SlicedCalibration(by=("country",))
    grown = trained(tmp_path / "log", subsample=0.5, resume=True, **how)
    whole = trained(tmp_path / "log", subsample=0.5, **everything(tmp_path, "whole"))
    assert 0 < whole.n_learned < 3000
    assert same_state(grown.model().to_state(), whole.model().to_state())
    assert same_state(grown.learner.to_state(), whole.learner.to_state())
    kept = predictions(tmp_path / "grown.predictions")
    assert kept.equals(predictions(tmp_path / "whole.predictions"))
    assert kept.column_names == ["time", "clicked", "weight", "country", "p_model", "p_calibrated"]
    assert kept["p_calibrated"].to_pylist() != kept["p_model"].to_pylist()
    again = trained(tmp_path / "log", subsample=0.5, resume=True, **how)
    assert same_state(again.model().to_state(), whole.model().to_state())


def joined_logs(folder, rows, first, last):
    """Impressions without labels, and a log of their clicks of which some come late."""
    part = rows.slice(first, last - first)
    written(part.drop_columns(["clicked"]), folder / f"impressions-{first}.parquet", row_group_size=200)
    clicked = part.filter(pc.equal(part["clicked"], 1))
    wait = pa.array(np.random.default_rng(first).integers(0, 30, len(clicked)))
    clicks = pa.table({"id": clicked["id"], "time": pc.add(clicked["time"], wait)}).sort_by("time")
    written(clicks, folder / f"clicks-{first}.parquet")


JOINED = Description(id="id", weight="w", time="time", query="id", slices=["country"], signals=SIGNALS)


def joins(tmp_path, name, **how):
    files = {"clicks": str(tmp_path / "clicks-*.parquet"), "window": 60.0}
    return trained(str(tmp_path / "impressions-*.parquet"), JOINED, **files, **{**everything(tmp_path, name), **how})


def test_a_join_gives_the_same_model_as_labels_and_goes_on_with_later_files(tmp_path):
    rows = table()
    joined_logs(tmp_path, rows, 0, 1500)
    first = joins(tmp_path, "grown")
    assert first.n_learned == 1500
    joined_logs(tmp_path, rows, 1500, 3000)
    grown = joins(tmp_path, "grown", resume=True)
    whole = joins(tmp_path, "whole")
    assert grown.counts() == whole.counts()
    assert same_state(grown.model().to_state(), whole.model().to_state())
    assert predictions(tmp_path / "grown.predictions").equals(predictions(tmp_path / "whole.predictions"))
    labelled = trained(written(rows, tmp_path / "labelled.parquet"))
    assert same_state(whole.learner.to_state(), labelled.learner.to_state())


def test_events_without_an_id_or_a_time_are_rejected_and_not_joined(tmp_path):
    (tmp_path / "shown.csv").write_text("id,time,ad\na,10,1\n,11,1\nb,12,2\n,13,2\nc,,1\n")
    (tmp_path / "clicks.csv").write_text("id,time\nb,13\n,14\na,\n")
    described = Description(id="id", time="time", signals=[Categorical("ad")])
    clicks = tmp_path / "clicks.csv"
    with Rejects(tmp_path / "bad", max_bad_rows=9) as rejects:
        run = trained(tmp_path / "shown.csv", described, clicks=clicks, window=5.0, rejects=rejects)
    assert rejects.reasons == {"the id is missing": 3, unread_time("time"): 2}
    counts = run.counts()
    assert [counts[name] for name in ("learned", "rejected", "impressions", "clicks", "joined_clicks")] == [
        2,
        5,
        2,
        1,
        1,
    ]


def test_rejects_are_weighed_against_rows_read_and_not_rows_learned(tmp_path, caplog):
    lines = ["q,ad,clicked", *(f"{i},1,{int(i == 0)}" for i in range(400)), *["7,1,2"] * 20]
    (tmp_path / "log.csv").write_text("\n".join(lines))
    described = Description(label="clicked", query="q", signals=[Categorical("ad")])
    with caplog.at_level(logging.WARNING, "broadmatch"):
        run = trained(tmp_path / "log.csv", described, subsample=0.01)
    assert run.n_learned < 20
    assert "20 bad rows beside 400 good ones (the label is neither 0 nor 1: 20)" in caplog.text


def test_following_a_folder_until_it_is_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(event_stream, "POLL_SECONDS", 0.01)
    rows = table()
    (tmp_path / "log").mkdir()
    run = ClickTraining(tmp_path / "log", DESCRIPTION, FTRL(alpha=0.2, l1=0.01), follow=True)  # empty: it waits
    thread = threading.Thread(target=run.run)
    thread.start()
    try:
        written(rows.slice(0, 1000), tmp_path / "log" / "one.tmp")
        (tmp_path / "log" / "one.tmp").rename(tmp_path / "log" / "1.parquet")
        wait_for(lambda: run.n_learned == 1000)
        written(rows.slice(1000), tmp_path / "log" / "new.tmp")
        (tmp_path / "log" / "new.tmp").rename(tmp_path / "log" / "2.parquet")
        wait_for(lambda: run.n_learned == 3000)
    finally:
        run.stop()
        thread.join(10)
    assert not thread.is_alive()
    whole = trained(tmp_path / "log")
    assert same_state(run.model().to_state(), whole.model().to_state())


def wait_for(condition):
    for _ in range(3000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it did not come")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"learner": FTRL(alpha=0.3)}, r"parameters: alpha was '0\.2' and is '0\.3'"),
        ({"learner": OGD()}, "learner was 'FTRL' and is 'OGD'"),
        ({"subsample": 0.5}, r"subsample was None and is 0\.5"),
        ({"names": True}, "names was False and is True"),
        ({"calibration": SlicedCalibration(by=("country",))}, "calibration was None and is"),
        (
            {"description": Description(label="clicked", time="time", slices=["country"], signals=SIGNALS)},
            "description: weight was 'w' and is None",
        ),
    ],
)
def test_a_checkpoint_of_other_parameters(tmp_path, change, said):
    log = written(table(300), tmp_path / "log.parquet")
    trained(log, checkpoints=tmp_path / "c")
    with pytest.raises(BadInput, match=f"The checkpoint is of a run with other settings: {said}"):
        trained(log, **{"checkpoints": tmp_path / "c", "resume": True, **change})
    assert trained(log, checkpoints=tmp_path / "c", resume=True).n_learned == 300


def test_a_folder_that_cannot_be_gone_on_from(tmp_path):
    log = written(table(300), tmp_path / "log.parquet")
    trained(log, checkpoints=tmp_path / "c")
    with pytest.raises(CannotWrite, match="c is left from an earlier run: go on with it by resume=True"):
        trained(log, checkpoints=tmp_path / "c")
    (kept,) = (tmp_path / "c").iterdir()
    damaged = kept / "learner.numbers.npy"
    damaged.write_bytes(damaged.read_bytes()[:-8])
    with pytest.raises(BadArtifact, match=r"learner\.numbers\.npy"):
        trained(log, checkpoints=tmp_path / "c", resume=True)
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_text("miaow")
    with pytest.raises(BadArtifact, match=r"photos is not a folder of checkpoints: it holds cat\.jpg"):
        trained(log, checkpoints=tmp_path / "photos")
    Checkpoints(tmp_path / "other").write(FTRL().to_state())
    with pytest.raises(BadArtifact, match="other is not a folder of checkpoints of a training run: it has no 'run'"):
        trained(log, checkpoints=tmp_path / "other", resume=True)


def test_a_full_disk_leaves_the_earlier_checkpoint(tmp_path):
    """A limit on the size of files stands in for the full disk."""
    rows = table()
    (tmp_path / "log").mkdir()
    written(rows.slice(0, 500), tmp_path / "log" / "1.parquet")
    trained(tmp_path / "log", checkpoints=tmp_path / "c")
    written(rows.slice(500), tmp_path / "log" / "2.parquet")
    code = """
        import resource, sys
        from broadmatch.errors import CannotWrite
        from tests.clicks.training.test_training import trained
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, 2_000))
        try:
            trained(sys.argv[1] + "/log", checkpoints=sys.argv[1] + "/c", resume=True)
        except CannotWrite as error:
            print(error)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code), str(tmp_path)], capture_output=True, text=True)
    assert done.stdout.startswith(f"Cannot write {tmp_path / 'c'}"), done.stderr
    assert "nothing was left there" in done.stdout
    run = trained(tmp_path / "log", checkpoints=tmp_path / "c", resume=True)
    assert same_state(run.learner.to_state(), trained(tmp_path / "log").learner.to_state())


def test_ctrl_c_leaves_the_last_checkpoint(tmp_path, monkeypatch):
    log = written(table(), tmp_path / "log.parquet", row_group_size=300)
    learn, calls = FTRL.learn_many, []

    def interrupted(self, impressions, *, encoded):
        calls.append(0)
        if len(calls) == 4:
            learn(self, impressions, encoded=encoded)
            raise KeyboardInterrupt
        return learn(self, impressions, encoded=encoded)

    monkeypatch.setattr(FTRL, "learn_many", interrupted)
    with pytest.raises(KeyboardInterrupt):
        trained(log, **everything(tmp_path, "stopped"))
    run = trained(log, **everything(tmp_path, "stopped"), resume=True)
    whole = trained(log, **everything(tmp_path, "whole"))
    assert same_state(run.model().to_state(), whole.model().to_state())
    assert predictions(tmp_path / "stopped.predictions").equals(predictions(tmp_path / "whole.predictions"))


def test_threads_learn_every_impression_once_and_can_be_resumed(tmp_path):
    rows = table(20_000)
    (tmp_path / "log").mkdir()
    written(rows.slice(0, 12_000), tmp_path / "log" / "1.parquet", row_group_size=250)
    how = everything(tmp_path, "threads")
    trained(tmp_path / "log", n_jobs=2, **how)
    written(rows.slice(12_000), tmp_path / "log" / "2.parquet", row_group_size=250)
    how["calibration"] = SlicedCalibration(by=("country",))
    run = trained(tmp_path / "log", n_jobs=2, resume=True, **how)
    one = trained(tmp_path / "log", predictions=tmp_path / "one")
    assert run.n_learned == 20_000
    kept, alone = predictions(tmp_path / "threads.predictions"), predictions(tmp_path / "one")
    for name in ("time", "clicked", "weight", "country"):
        assert kept[name].equals(alone[name])
    clicked = kept["clicked"].to_numpy()
    assert abs(log_loss(clicked, kept["p_model"].to_numpy()) - log_loss(clicked, alone["p_model"].to_numpy())) < 0.005
    assert run.learner.n_features == one.learner.n_features == len(run.model().names)


def test_threads_go_on_where_all_rows_of_a_round_are_bad(tmp_path):
    rows = table(1000)
    bad = rows.set_column(rows.column_names.index("clicked"), "clicked", pa.array([3] * 1000))
    (tmp_path / "log").mkdir()
    written(rows, tmp_path / "log" / "1.parquet")
    written(bad, tmp_path / "log" / "2.parquet", row_group_size=10)
    written(rows, tmp_path / "log" / "3.parquet")
    run = trained(tmp_path / "log", n_jobs=2)
    assert run.counts() == {"learned": 2000, "rejected": 1000, "out_of_order": 999}


def test_many_models_in_one_run(tmp_path):
    log = written(table(), tmp_path / "log.parquet", row_group_size=500)
    variants = {"fast": Variant(alpha=0.5), "slow": Variant(alpha=0.01), "ads": Variant(alpha=0.5, fields=[0])}
    run = trained(log, learner=ManyModels(variants), **everything(tmp_path, "many"))
    kept = predictions(tmp_path / "many.predictions")
    assert kept.column_names[4:] == ["p_fast", "p_slow", "p_ads", "p_calibrated"]
    assert len({tuple(kept[name].to_pylist()[-9:]) for name in kept.column_names[4:]}) == 4
    model = run.model()
    assert list(model.models) == ["fast", "slow", "ads"]
    one = table().combine_chunks().to_batches()[0]
    assert not np.array_equal(model.predict_many(one, model="slow"), model.predict_many(one, model="ads"))
    resumed = trained(log, learner=ManyModels(variants), **everything(tmp_path, "many"), resume=True)
    assert same_state(resumed.model().to_state(), model.to_state())


def test_time_that_goes_back_is_noticed(tmp_path, caplog):
    rows = table(300)
    back = pa.concat_tables([rows.slice(200), rows.slice(0, 200)])
    log = written(back, tmp_path / "log.parquet", row_group_size=30)
    with caplog.at_level(logging.WARNING, "broadmatch"):
        run = trained(log)
    assert run.counts() == {"learned": 300, "rejected": 0, "out_of_order": 200}
    assert caplog.messages == ["200 impressions come before an earlier one in time."]


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"clicks": "c.csv"}, "clicks and window must be given together"),
        ({"clicks": "c.csv", "window": 5.0}, "which columns are `id` and `time`"),
        ({"resume": True}, "resume needs the folder of the checkpoints"),
        ({"every": 0}, "every must be a number above 0"),
        ({"refresh": 0}, "refresh must be a whole number of at least 1"),
        ({"n_jobs": 2, "subsample": 0.1}, "n_jobs must be 1 with clicks, subsample or follow"),
        ({"n_jobs": 2, "learner": ManyModels({"a": Variant()})}, "n_jobs must be 1 for many models"),
        ({"calibration": SlicedCalibration(by=("city",))}, "The calibration is by 'city': name it in"),
    ],
)
def test_settings_that_do_not_go_together(tmp_path, how, said):
    log = written(table(10), tmp_path / "log.parquet")
    with pytest.raises(BadParameter, match=said):
        trained(log, **how)


def test_following_impressions_and_clicks(tmp_path, monkeypatch):
    monkeypatch.setattr(event_stream, "POLL_SECONDS", 0.01)
    rows = table()
    joined_logs(tmp_path, rows, 0, 1500)
    how = everything(tmp_path, "followed") | {"clicks": str(tmp_path / "clicks-*.parquet"), "window": 60.0}
    run = ClickTraining(str(tmp_path / "impressions-*.parquet"), JOINED, FTRL(alpha=0.2, l1=0.01), follow=True, **how)
    thread = threading.Thread(target=run.run)
    thread.start()
    try:
        wait_for(lambda: run.n_learned > 1000)
        (tmp_path / "new").mkdir()
        joined_logs(tmp_path / "new", rows, 1500, 3000)
        for file in (tmp_path / "new").iterdir():
            file.rename(tmp_path / file.name)
        wait_for(
            lambda: (run.counts()["impressions"], run.counts()["clicks"]) == (3000, sum(rows["clicked"].to_pylist()))
        )
    finally:
        run.stop()
        thread.join(10)
    assert not thread.is_alive()
    whole = joins(tmp_path, "whole")
    assert run.counts() == whole.counts()
    assert same_state(run.model().to_state(), whole.model().to_state())


def test_clicks_that_end_before_the_impressions(tmp_path):
    """After the end of the clicks nothing is checkpointed that more clicks could change."""
    rows = table()
    joined_logs(tmp_path, rows, 0, 1000)
    part = rows.slice(1000)
    written(part.drop_columns(["clicked"]), tmp_path / "impressions-2.parquet", row_group_size=200)
    first = joins(tmp_path, "grown")
    assert first.n_learned == 3000
    (tmp_path / "later").mkdir()
    joined_logs(tmp_path / "later", rows, 1000, 3000)
    (tmp_path / "later" / "clicks-1000.parquet").rename(tmp_path / "clicks-1000.parquet")
    grown = joins(tmp_path, "grown", resume=True)
    whole = joins(tmp_path, "whole")
    assert grown.counts() == whole.counts()
    assert whole.counts()["joined_clicks"] == sum(rows["clicked"].to_pylist())
    assert same_state(grown.model().to_state(), whole.model().to_state())
