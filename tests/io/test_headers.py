"""Tables as people have them: encodings, delimiters, titles above the header, totals below, columns by any name."""

import gzip
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broadmatch.errors import BadInput, TooManyBadRows
from broadmatch.io import ClickLog, RecordStream, Rejects, read_pairs
from broadmatch.io import streams as module
from broadmatch.io.headers import encoding_of, find_header
from broadmatch.io.tables import REVEALED

PLAIN = "query,page,clicks\npizza,a.html,3\nnaïve,b.html,1\n"
ROWS = [("naïve", "b.html", 1), ("pizza", "a.html", 3)]


def clicks_of(path, text, **options):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    log = ClickLog(path, **options)
    rows = [row for batch in log.read(times=False) for row in batch.to_pylist()]
    return sorted((row["query"], row["page"], row["clicks"]) for row in rows), log


# One stray quote


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
@pytest.mark.parametrize("bad", ['"pizza,p1.html,1', 'pizza,"p1.html,1', 'pizza,p1.html,"1'])
@pytest.mark.parametrize("later", ["plain", "inches", "quoted"])
def test_a_quote_that_is_not_closed_costs_its_own_line(tmp_path, suffix, bad, later):
    """A quote that closes a field far below, as in 42", does not make one record of all lines between."""
    lines = ["query,page,clicks", *(f"q{i},p{i}.html,1" for i in range(20_000))]
    lines[6] = bad
    if later == "inches":
        lines[15_000] = 'tv 42",p.html,1'
        lines[16_000] = 'q,p 42",1'
        lines[17_000] = 'q,p,1"'
    if later == "quoted":
        lines[15_000] = '"tv ""42""",p.html,1'
        lines[16_000] = '"two\nlines",p.html,1'
    text = "\n".join(lines) + "\n"
    rows, log = clicks_of(tmp_path / f"log.{suffix}", text if suffix == "csv" else text.replace(",", "\t"))
    lost = 2 if later == "inches" else 1
    assert (len(rows), log.rejects.count) == (20_000 - lost, lost)
    assert log.rejects.reasons["the quotes of a field are broken"] == 1
    with pytest.raises(TooManyBadRows, match="line 7: the quotes of a field are broken"):
        list(ClickLog(tmp_path / f"log.{suffix}", rejects=Rejects(max_bad_rows=0)).read())


def test_a_text_over_many_lines_is_one_field(tmp_path):
    text = "One, two.\n\nThree, four, five; six.\n" * 50
    (tmp_path / "pages.csv").write_text(f'name,html,note\na,"{text}",x\nb,"{text}",y\n')
    (rows,) = RecordStream(tmp_path / "pages.csv")
    assert rows.table.to_pydict() == {"name": ["a", "b"], "html": [text] * 2, "note": ["x", "y"]}


# Encodings


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("packed", [False, True])
def test_encodings_are_told_by_the_first_bytes(tmp_path, encoding, packed):
    data = PLAIN.encode(encoding)
    path = tmp_path / ("log.csv.gz" if packed else "log.csv")
    rows, log = clicks_of(path, gzip.compress(data) if packed else data)
    assert (rows, log.rejects.count) == (ROWS, 0)


def test_a_text_in_utf16_can_be_gone_on_with(tmp_path):
    lines = "".join(f"{i},t{i}é\r\n" for i in range(50_000))
    (tmp_path / "a.csv").write_bytes(("n,t\r\n" + lines).encode("utf-16"))
    first, *rest = RecordStream(tmp_path / "a.csv", batch_rows=20_000)
    again = list(RecordStream(tmp_path / "a.csv", batch_rows=20_000, start=first.end))
    assert [rows.table for rows in again] == [rows.table for rows in rest]
    assert list(RecordStream(tmp_path / "a.csv", start=again[-1].end)) == []


def test_half_a_pair_in_utf16_is_a_bad_line(tmp_path):
    data = "\ufeffquery,page\nq,p\n".encode("utf-16-le") + b"\x00\xd8" + ",p\nr,p\n".encode("utf-16-le")
    rows, log = clicks_of(tmp_path / "log.csv", data)
    assert ([row[0] for row in rows], log.rejects.reasons) == (["q", "r"], {"the line is not UTF-8": 1})
    with pytest.raises(BadInput, match="is not whole UTF-16"):
        clicks_of(tmp_path / "log.csv", data + b"\x41")


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_lines_that_are_not_utf8_are_windows_1252(tmp_path, delimiter, caplog):
    table = [
        ("größe", "anzeige"),
        ("Käse", "1"),
        ("“5 €”", "2"),
        ('"zwei\nGrößen"', "3"),
        ("größe", "anzeige"),
        ("Ÿ\x81", "4"),
    ]
    lines = [delimiter.join(row) + "\r\n" for row in table]
    encoded = b"".join(windows_1252_bytes(line) for line in lines) + "Käse".encode() + delimiter.encode() + b"5\n"
    (tmp_path / "log.csv").write_bytes(encoded)
    stream = RecordStream(tmp_path / "log.csv", columns=["größe", "anzeige"])
    (rows,) = stream
    assert rows.table.to_pydict() == {
        "größe": ["Käse", "“5 €”", "zwei\nGrößen", "Ÿ\x81", "Käse"], "anzeige": ["1", "2", "3", "4", "5"]
    }  # fmt: skip
    assert [rows.line(i) for i in range(5)] == [2, 3, 4, 7, 8]
    assert stream.rejects.reasons == {"the line repeats the column names": 1}
    stream.rejects.finish(5)
    assert caplog.messages[0] == f"{tmp_path / 'log.csv'}: 5 lines are not UTF-8 and were read as Windows-1252."


def windows_1252_bytes(text):
    return b"".join(b"\x81" if letter == "\x81" else letter.encode("cp1252") for letter in text)


def test_windows_1252_can_be_gone_on_with_and_is_told_once(tmp_path, caplog):
    lines = "".join(f"{i},t{i}{'é' * (i % 3)}\n" for i in range(1000))
    for name in ("a.csv", "b.csv.gz"):
        data = ("n,t\n" + lines).encode("cp1252")
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    stream = RecordStream(tmp_path, batch_rows=300)
    parts = list(stream)
    assert [t for part in parts for t in part.table["t"].to_pylist()] == [
        f"t{i}{'é' * (i % 3)}" for i in range(1000)
    ] * 2
    again = list(RecordStream(tmp_path, batch_rows=300, start=parts[1].end))
    assert [part.table for part in again] == [part.table for part in parts[2:]]
    stream.rejects.finish(2000)
    stream.rejects.finish(2000)
    (said,) = caplog.messages
    assert said == f"2 files, such as {tmp_path / 'a.csv'}: 1,332 lines are not UTF-8 and were read as Windows-1252."


def test_a_binary_file_has_no_header_in_windows_1252(tmp_path):
    (tmp_path / "log.csv").write_bytes(b"PK\x03\x04\x9c,\xff\n\x00,\xfe\n")
    with pytest.raises(BadInput, match="does not begin with a line of column names in UTF-8 or Windows-1252"):
        RecordStream(tmp_path / "log.csv")


@given(st.binary(max_size=64))
def test_no_bytes_upset_the_guess(head):
    assert encoding_of(head) in ("utf-8", "utf-16-le", "utf-16-be")


# Delimiters and headers


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_the_delimiter_is_found(tmp_path, delimiter, end):
    text = PLAIN.replace(",", delimiter).replace("\n", end)
    rows, log = clicks_of(tmp_path / "log.csv", text)
    assert (rows, log.rejects.count) == (ROWS, 0)
    headless = text.split(end, 1)[1]
    assert clicks_of(tmp_path / "log.csv", headless, names=["query", "page", "clicks"])[0] == ROWS


def test_commas_in_a_table_with_semicolons_and_the_other_way_round(tmp_path):
    assert clicks_of(tmp_path / "a.csv", "query;page;cost\na, b;p;1,5\nc, d;q;2,5\n")[0] == [
        ("a, b", "p", 1),
        ("c, d", "q", 1),
    ]
    assert clicks_of(tmp_path / "b.csv", "query,page\na;b|c,p\nd;e|f,q\n")[0] == [("a;b|c", "p", 1), ("d;e|f", "q", 1)]


def test_one_column_is_not_cut_and_lines_that_are_too_long_are_rejected(tmp_path):
    (tmp_path / "a.csv").write_text("query\npizza\na|b\ntaxi\n")
    assert [rows.table.to_pydict() for rows in RecordStream(tmp_path / "a.csv")] == [
        {"query": ["pizza", "a|b", "taxi"]}
    ]
    assert find_header(b"a,b\n1,2,3\n1,2,3\n", ",", None)[:3] == (",", 0, 4)
    # Bars in every line do not make the header a title, where some lines have a comma too many.
    text = "name,title\n" + "a,Shop | x\n" * 5 + "b,Pizza, hot | Shop\n" * 3
    assert find_header(text.encode(), ",", None)[:3] == (",", 0, 11)
    assert find_header(b"Query;Page;CTR, %\nq;p;1,5\nr;p;2,5\n", ",", None).delimiter == ";"


GOOGLE_ADS = """Search terms report
"January 1, 2024 - January 31, 2024"
Search term,Match type,Landing page,Clicks,Impr.
pizza,Broad match,https://a.example/,"1,234","10,000"
"pizza, hot",Phrase match,https://a.example/b, 2 ,30
Total: Filtered search terms, --, --,"1,236","10,030"
Total: Account, --, --,"2,000","20,000"
"""
MICROSOFT = """"Report Name: Search terms"
"Report Time: 1/1/2024 - 1/31/2024"
"Time Zone: (GMT-08:00) Pacific Time (US & Canada); Tijuana"
"Report Filter: "
"Rows: 2"

"Search term","Keyword","Final URL","Clicks"
"pizza","food","https://a.example/","1,234"
"pizza, hot","food","https://a.example/b","2"

"©2024 Microsoft Corporation. All rights reserved. "
"""
ANALYTICS = """# ----------------------------------------
# Queries, pages
# Start date: 20240101
# ----------------------------------------

Session Google Ads query,Landing page + query string,Sessions
pizza,https://a.example/,1234
"pizza, hot",https://a.example/b,2
"""
EXPORTS = {
    "google": GOOGLE_ADS.encode(),
    "google excel": GOOGLE_ADS.replace('"January 1, 2024 - January 31, 2024"', "January 1, 2024 - January 31, 2024")
    .replace(",Match", "\tMatch").replace(",Landing", "\tLanding").replace(",Clicks,Impr.", "\tClicks\tImpr.")
    .replace(",Broad match,", "\tBroad match\t").replace(",Phrase match,", "\tPhrase match\t")
    .replace(',"', '\t"').replace("/b, 2 ,30", "/b\t2\t30").replace(", --, --", "\t --\t --").encode("utf-16"),
    "microsoft": b"\xef\xbb\xbf" + MICROSOFT.encode(),
    "analytics": ANALYTICS.encode(),
    "search console": b'Query,Page,Clicks,CTR\npizza,https://a.example/,1234,5%\n"pizza, hot",https://a.example/b,2,1%\n',
    "matomo": "Keyword,Entry Page URL,Visits\npizza,https://a.example/,1234\n"
    '"pizza, hot",https://a.example/b,2\n'.encode("utf-16"),
}  # fmt: skip


@pytest.mark.parametrize("export", EXPORTS)
def test_exports_are_read_as_they_are(tmp_path, export):
    rows, log = clicks_of(tmp_path / "export.csv", EXPORTS[export])
    assert rows == [("pizza", "https://a.example/", 1234), ("pizza, hot", "https://a.example/b", 2)]
    assert (log.rejects.count, log.totals) == (0, 2 if export.startswith("google") else 0)


def test_a_query_for_totals_is_a_query(tmp_path):
    rows, log = clicks_of(tmp_path / "log.csv", "query,page\nTotal recall,a.html\nTotal: war,b.html\n")
    assert (len(rows), log.totals) == (2, 0)


def test_columns_may_be_called_differently_in_each_file(tmp_path):
    (tmp_path / "a.csv").write_text("QUERY,Landing_Page\nq,p\n")
    (tmp_path / "b.jsonl").write_text('{"search term": "r", "page": "p"}\n')
    (tmp_path / "c.jsonl").write_text('{"query": "s", "url": "p"}\n')
    assert sorted(row["query"] for batch in ClickLog(tmp_path).read() for row in batch.to_pylist()) == ["q", "r", "s"]
    (tmp_path / "bids.csv").write_text("Page;Phrase\na;b\n")
    assert read_pairs(tmp_path / "bids.csv", REVEALED) == [("a", "b")]


def test_all_that_is_missing_is_in_one_message(tmp_path):
    message = (
        r"log\.csv has no column 'query' or 'search term' or 'search query' or the like for our 'query' and none "
        r"'page' or .* for our 'page'; its columns are 'Who', 'Cost': say which they are with "
        r"columns=\{'query': ..., 'page': ...\}\."
    )
    with pytest.raises(BadInput, match=message):
        clicks_of(tmp_path / "log.csv", "Who,Cost\na,b\n")
    with pytest.raises(BadInput, match=r"has no columns 'x', 'y'; its columns are 'Who', 'Cost': correct the name"):
        RecordStream(tmp_path / "log.csv", columns=["x", "Who", "y"])


# Times


def test_times_that_cannot_be_read_name_the_option(tmp_path):
    (tmp_path / "log.csv").write_text("query,page,time\nq,p,9:30\nr,p,10:15\n")
    with pytest.raises(TooManyBadRows, match="--time-format says how times are written"):
        list(ClickLog(tmp_path / "log.csv").read())
    (batch,) = ClickLog(tmp_path / "log.csv", time_format="%H:%M").read()
    first, second = batch["time"].to_pylist()
    assert second - first == 45 * 60 * 10**6


# A folder that is empty


@pytest.mark.parametrize("source", [".", "*.csv", "a.csv"])
def test_what_is_followed_may_be_empty_at_first(tmp_path, monkeypatch, source):
    monkeypatch.setattr(module, "POLL_SECONDS", 0.01)
    if source == "a.csv":
        (tmp_path / "a.csv").touch()
    steps = [
        threading.Timer(0.05, lambda: (tmp_path / "a.csv").write_text("query,pa")),
        threading.Timer(0.15, lambda: (tmp_path / "a.csv").write_text("query,page\nq,p\n")),
    ]
    for step in steps:
        step.start()
    stream = RecordStream(tmp_path / source, follow=True)
    assert next(iter(stream)).table.to_pydict() == {"query": ["q"], "page": ["p"]}
    with pytest.raises(FileNotFoundError):
        RecordStream(tmp_path / "none", follow=True)


@pytest.mark.parametrize(("suffix", "delimiter"), [("csv", ";"), ("csv", "\t"), ("tsv", "\t"), ("tsv", ";")])
def test_decimal_commas_beside_semicolons_and_tabs(tmp_path, suffix, delimiter):
    text = "query,page,clicks\na 1|5,p,1|0\nb,p,1.234|0\nc,p,1|234\nd,p,0|5\n".replace(",", delimiter).replace("|", ",")
    rows, log = clicks_of(tmp_path / f"log.{suffix}", text)
    assert rows == [("a 1,5", "p", 1), ("b", "p", 1234), ("c", "p", 1234)]
    assert log.rejects.reasons == {"clicks is not a whole number": 1}


def test_commas_that_separate_are_no_decimal_commas(tmp_path):
    rows, log = clicks_of(tmp_path / "log.csv", 'query,page,clicks\na,p,"1,0"\nb,p,"1,234"\n')
    assert (rows, log.rejects.reasons) == ([("b", "p", 1234)], {"clicks is not a whole number": 1})
