"""No secret of a database is told, however its driver has it written into a URL."""

import contextlib
import io
import string
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import pytest
from hypothesis import given, settings, strategies as st

import caladan as cal
from caladan.cli import main
from caladan.data import secrets
from caladan.data.external import parse_name
from caladan.data.source import source
from caladan.program.diagnostics import CaladanError, Place, error

FORMS = (
    "jdbc:postgresql://db.example:5432/shop?user=ann&password={}",
    "jdbc:postgresql://ann:{}@db.example/shop",
    "jdbc:postgresql://{}@db.example/shop",
    "jdbc:postgresql://db.example/shop?user=ann@corp&password={}&ssl=true",
    "jdbc:mysql://(host=db.example,port=3306,user=ann,password={})/shop",
    "jdbc:mysql://address=(host=db.example)(user=ann)(password={})/shop",
    "jdbc:mysql://[(host=a.example,password={}),(host=b.example,password={})]/shop",
    "jdbc:mysql://ann:{}@a.example:3306,ben:{}@b.example:3306/shop",
    "jdbc:mysql:replication://(host=a,user=ann,password={}),(host=b)/shop?useSSL=true",
    "jdbc:mysql+srv://ann:{}@db.example/shop",
    "jdbc:mariadb://db.example/shop?user=ann&password={}",
    "jdbc:oracle:thin:scott/{}@db.example:1521:shop",
    "jdbc:oracle:thin:scott/{}@//db.example:1521/shop",
    'jdbc:oracle:thin:scott/"{}"@tcps://db.example:2484/shop?wallet_location=/w',
    "jdbc:oracle:oci:scott/{}@shop",
    "jdbc:oracle:oci:scott/{}",
    "jdbc:oracle:thin:scott/{}@(DESCRIPTION=(ADDRESS=(PROTOCOL=TCP)(HOST=db.example)(PORT=1521)))",
    "jdbc:teradata://db.example/DATABASE=shop,DBS_PORT=1025,USER=ann,PASSWORD={}",
    "jdbc:teradata://db.example/USER=ann,PASSWORD={},TMODE=ANSI",
    "jdbc:db2://db.example:50000/shop:user=ann;password={};",
    "jdbc:db2:shop:user=ann;password={};",
    "jdbc:informix-sqli://db.example:1526/shop:INFORMIXSERVER=s;user=ann;password={}",
    "jdbc:informix-sqli:/shop:user=ann;password={}",
    "jdbc:sqlserver://db.example:1433;databaseName=shop;user=ann;password={{{}}};encrypt=true",
    "jdbc:sqlserver://db.example\\shop:1433;user=ann;password={};",
    "jdbc:sqlserver://;serverName=db.example;user=ann;password={{{}}}",
    "jdbc:jtds:sqlserver://db.example:1433/shop;user=ann;password={}",
    "jdbc:sybase:Tds:db.example:5000/shop?USER=ann&PASSWORD={}",
    "jdbc:h2:tcp://db.example/~/shop;USER=ann;PASSWORD={}",
    "jdbc:derby:memory:shop;create=true;user=ann;password={}",
    "jdbc:snowflake://a.snowflakecomputing.com/?user=ann&private_key_file_pwd={}&db=shop",
    "jdbc:databricks://db.example:443/default;AuthMech=3;UID=token;PWD={}",
    "jdbc:redshift:iam://db.example:5439/shop?AccessKeyID=a&SecretAccessKey={}",
    "jdbc:hive2://db.example:10000/shop;ssl=true;trustStorePassword={}",
    "jdbc:sap://db.example:30015/?user=ann&password={}",
    "jdbc:as400://db.example;naming=sql;user=ann;password={}",
    "jdbc:anything:{}",
    "jdbc:anything://{}@db.example:x",
    "jdbc:{}",
    "JDBC:mysql://db.example/shop?password={}",
    " jdbc:mysql://db.example/shop?password={}",
)

# No host, scheme, database or table of this file has them: what is found of them is a leak.
SECRETS = st.text(string.digits + "QXZ" + "@/:;,&=?(){}[]<>#%+$!'\"\\ é|-_.", min_size=8)


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(secrets, "_hidden", {})
    yield


def told(secret: str, form: str) -> Iterator[str]:
    """All that is told of a database, in good and in bad days."""
    url = form.replace("{{", "{").replace("}}", "}").replace("{}", secret)
    place = cal.jdbc(url, "sales", properties={"user": "ann", "password": secret, "odd": secret})
    yield from (place.shown, repr(place), str(place), repr(source("sales", place)))
    with contextlib.suppress(CaladanError):  # the secret holds something like a table
        yield repr(parse_name(f"{url}#sales", "sales", {}))
    cast("Any", secrets)._hidden.clear()  # of the example before
    place.hide()
    for said in (
        f"No suitable driver found for {url}",
        f"Unable to parse URL {url.upper()}",
        f"the settings are {dict(place.properties)}, and {secret}.",
        f"cannot connect with {quote(secret, safe='')} or {quote(secret)}",
        f"unknown setting '{secret}' of {url[5:]}",
        f"cannot split {url.split(':', 2)[-1]!r}",
    ):
        yield secrets.scrub(said)


def leaks(secret: str, text: str) -> bool:
    bare = text.replace("…", "")
    return secret in bare or quote(secret, safe="") in bare


@settings(max_examples=400)
@given(secret=SECRETS, form=st.sampled_from(FORMS))
def test_no_secret_is_told(secret: str, form: str) -> None:
    # Blanks around a secret are no part of what is looked for, nor is one that is all delimiters.
    if sum(c.isalnum() for c in secret) >= 4:
        found = [text for text in told(secret, form) if leaks(secret.strip(), text)]
        assert not found


@pytest.mark.parametrize("form", FORMS)
def test_no_piece_of_a_plain_secret_is_told(form: str) -> None:
    for text in told("open-sesame", form):
        assert "sesame" not in text.lower()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("jdbc:postgresql://ann:x@db.example:5432/shop?ssl=true", "jdbc:postgresql://db.example"),
        ("jdbc:postgresql://[::1]:5432/shop", "jdbc:postgresql://[::1]"),
        ("jdbc:sqlserver://db.example\\one;user=ann", "jdbc:sqlserver://db.example"),
        ("jdbc:oracle:thin:@db.example:1521:shop", "jdbc:oracle://db.example"),
        ("jdbc:oracle:thin:a/b@tcps://db.example:2484/shop", "jdbc:oracle://db.example"),
        ("jdbc:teradata://db.example/USER=ann,PASSWORD=x", "jdbc:teradata://db.example"),
        ("jdbc:db2://db.example:50000/shop:user=ann;", "jdbc:db2://db.example"),
        ("jdbc:h2:tcp://db.example/~/shop", "jdbc:h2://db.example"),
        ("jdbc:mysql://(host=db.example,password=x)/shop", "jdbc:mysql"),
        # Which of them is the host, if somebody's password has an `@` or a `/`?
        ("jdbc:mysql://ann:12/34@db.example/shop", "jdbc:mysql"),
        ("jdbc:mysql://ann:x@a.example,ben:y@b.example/shop", "jdbc:mysql"),
        ("jdbc:sqlite:/data/shop.db", "jdbc:sqlite"),
        ("jdbc:", "jdbc"),
    ],
)
def test_scheme_and_host_are_shown(url: str, shown: str) -> None:
    assert secrets.shown(url) == shown


def test_what_a_database_says_stays_readable() -> None:
    cal.jdbc("jdbc:postgresql://ann:sesame@db.example:5432/shop?ssl=true", "sales").hide()
    said = 'FATAL: database "shop" on db.example does not exist (ssl is true, user "ann")'
    assert secrets.scrub(said) == said


def test_a_url_of_endless_pieces_withholds_all() -> None:
    cal.jdbc("jdbc:x:" + "/".join(f"piece{i}" for i in range(200)), "sales").hide()
    assert "piece7" not in secrets.scrub("no piece7 here")


def test_paths_show_no_user() -> None:
    shown = str(error("C030", "no such file", Place("s3://key:sesame@bucket/x.csv")))
    assert shown.startswith("s3://bucket/x.csv: error[C030]")


URL = "jdbc:mysql://db.example/shop?user=ann&password=open sesame"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--data", URL],
        ["--data", f"sales={URL}#!"],
        ["--data", f"sales={URL}"],
        ["--data", f"sales=JDBC:{URL[5:]}"],
        ["--dat", f"sales={URL}"],
        [URL],
        ["--conf", "=open sesame"],
        ["--param", "sesame"],
    ],
)
def test_the_command_line_tells_no_secret(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "p.dl"
    program.write_text("p(X) <- sales(X). query p(X).")
    try:
        code = main(["run", str(program), "--engine", "embedded", *arguments])
    except SystemExit as ended:
        code = ended.code
    assert code in (1, 2)
    out, err = capsys.readouterr()
    assert err
    assert "sesame" not in out + err


def test_data_and_files_show_no_secret() -> None:
    db = cal.connect("embedded")
    db.add("p", [(1,)])
    answer = db.run("q(X) <- p(X). query q(X).").answer
    said = io.StringIO()
    for attempt in (
        lambda: db.add("sales", URL),
        lambda: db.add("sales", Path(URL)),
        lambda: answer.write(f"{URL}#sales"),
        lambda: answer.write(URL),
        lambda: answer.write(cal.jdbc(URL, "sales")),
        lambda: cal.jdbc(URL),
        lambda: cal.jdbc(URL, "sales", properties={"url": "sesame"}),
    ):
        with pytest.raises(CaladanError) as caught:
            attempt()
        traceback.print_exception(caught.value, file=said)
    assert "sesame" not in said.getvalue().replace('"url": "sesame"', "")
