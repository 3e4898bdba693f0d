"""Certificate files, and what a client needs before it calls another machine."""

from __future__ import annotations

import itertools
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

from stepwell.cli.certificates import CertificatesRefused, make
from stepwell.cli.commands import certs
from stepwell.cli.exits import CliError
from stepwell.core.records.errors import StoreRefused
from stepwell_client.errors import Misconfigured
from stepwell_client.internal import Connection
from stepwell_client.tls import FilesRefused, PemFiles, handshake_trouble, validity
from stepwell_drivers.remote.access import Access
from stepwell_drivers.remote.url import parse

NOW = datetime.now(UTC)


def _files(folder: Path) -> PemFiles:
    return PemFiles(
        authority=folder / "ca.pem",
        certificate=folder / "server.pem",
        key=folder / "server-key.pem",
    )


# --- files -------------------------------------------------------------------------------------------


def test_half_written_pair_is_refused_once_and_the_one_before_stays(tmp_path: Path) -> None:
    make(tmp_path, ["localhost"], days=1, now=NOW)
    files = _files(tmp_path)
    first = files.pem
    assert not files.refresh()
    other = make(tmp_path / "other", ["localhost"], days=1, now=NOW).server

    (tmp_path / "server.pem").write_bytes(other.certificate.read_bytes())
    with pytest.raises(FilesRefused, match="not a certificate and its key"):
        files.refresh()
    assert not files.refresh()
    (tmp_path / "server.pem").unlink()
    with pytest.raises(FilesRefused, match="can't be read"):
        files.refresh()
    assert files.pem == first

    (tmp_path / "server.pem").write_bytes(other.certificate.read_bytes())
    (tmp_path / "server-key.pem").write_bytes(other.key.read_bytes())
    assert files.refresh()
    assert not files.refresh()
    assert (files.pem.certificate, files.pem.authority) == (
        other.certificate.read_bytes(),
        first.authority,
    )


@pytest.mark.parametrize("begin", [NOW, datetime(2051, 2, 3, 4, 5, 6, tzinfo=UTC)])
def test_first_certificate_of_a_file_says_when_it_is_valid(tmp_path: Path, begin: datetime) -> None:
    made = make(tmp_path, ["localhost"], days=7, now=begin)
    pair = made.server.certificate.read_bytes(), made.authority.certificate.read_bytes()
    valid = validity(b"A leaf, and who signed it:\n" + b"".join(pair))
    assert valid is not None
    assert valid[0] <= begin
    assert valid[1] == begin.replace(microsecond=0) + timedelta(days=7)
    assert validity(made.server.key.read_bytes()) is None


def test_files_that_cannot_serve_are_refused_by_name(tmp_path: Path) -> None:
    made = make(tmp_path, ["localhost"], days=1, now=NOW)
    with pytest.raises(FilesRefused, match="name both"):
        PemFiles(certificate=made.server.certificate)
    with pytest.raises(FilesRefused, match="nowhere can't be read"):
        PemFiles(authority=tmp_path / "nowhere")
    for content in ("", "no PEM", "é"):
        made.authority.certificate.write_text(content)
        with pytest.raises(FilesRefused, match=r"ca\.pem holds no certificate"):
            PemFiles(authority=made.authority.certificate)
    closed = tmp_path / "closed.pem"
    key = serialization.load_pem_private_key(made.server.key.read_bytes(), password=None)
    closed.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    with pytest.raises(FilesRefused, match=r"closed\.pem is encrypted"):
        PemFiles(certificate=made.server.certificate, key=closed)


def test_authority_is_kept_and_what_it_signs_is_made_anew(tmp_path: Path) -> None:
    first = make(tmp_path, ["a.example"], days=10, now=NOW)
    authority, server = (one.certificate.read_bytes() for one in first[:2])
    assert [one.key.stat().st_mode & 0o777 for one in first[:3]] == [0o600] * 3

    assert not make(tmp_path, ["10.0.0.1"], days=10, now=NOW).is_new_authority
    assert first.authority.certificate.read_bytes() == authority
    assert first.server.certificate.read_bytes() != server
    with pytest.raises(CertificatesRefused, match="has expired"):
        make(tmp_path, ["a"], days=1, now=NOW + timedelta(days=6 * 365))
    for name in ("", "a b", "a:1", "-a"):
        with pytest.raises(CertificatesRefused, match="neither a host name nor an address"):
            make(tmp_path, [name], days=1, now=NOW)
    first.authority.key.write_bytes(first.client.key.read_bytes())
    with pytest.raises(CertificatesRefused, match="is not the key of"):
        make(tmp_path, ["a"], days=1, now=NOW)


def test_certs_without_their_extra_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "stepwell.cli.certificates")
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(CliError, match=r"pip install 'stepwell\[certs\]'"):
        certs.certs(Path("nowhere"))


# --- what a client needs -----------------------------------------------------------------------------

LOCAL = ("127.0.0.1:1", "unix:/s", "grpcs://localhost:1", "grpcs://127.0.0.1:1,127.0.0.2:1")
REMOTE = ("db.example:1", "ipv4:127.0.0.1:1,10.0.0.1:1", "grpcs://db.example:1")


@pytest.mark.parametrize("target", [*LOCAL, *REMOTE])
def test_another_machine_needs_tls_and_a_token_or_the_switch(tmp_path: Path, target: str) -> None:
    """Arguments and the environment count the same. What was minted for this machine is no token for another."""
    ca = make(tmp_path, ["a"], days=1, now=NOW).authority.certificate
    (tmp_path / "stepwell").mkdir()
    (tmp_path / "stepwell" / "token").write_text("minted")
    base = {"XDG_STATE_HOME": str(tmp_path)}
    for tls, token, insecure in itertools.product((None, ca), (None, "t"), (None, True)):
        security: dict[str, Any] = {
            "tls_name": "a",
            "tls_ca": tls,
            "insecure_allow_remote": insecure,
        }
        given = {name: value for name, value in security.items() if value is not None}
        environ = base | {f"STEPWELL_{name.upper()}": str(value) for name, value in given.items()}

        def connect(environ: dict[str, str], token: str | None = token, **given: Any) -> Any:
            made = Connection(target, token=token, environ=environ, **given)
            return dict(made.access.metadata).get("authorization")

        is_secure = tls is not None or target.startswith("grpcs://")
        if target in LOCAL or insecure or (is_secure and token):
            minted = "Bearer minted" if target in LOCAL else None
            assert connect(base, **given) == (f"Bearer {token}" if token else minted)
            assert connect(environ) == connect(base, **given)
        else:
            words = "no token was named" if is_secure else "clear text"
            with pytest.raises(Misconfigured, match=words):
                connect(base, **given)
            with pytest.raises(Misconfigured, match=words):
                connect(environ)


@pytest.mark.parametrize("scheme", ["grpc", "grpcs"])
@pytest.mark.parametrize("host", ["127.0.0.1", "db.example"])
@pytest.mark.parametrize("token", ["", "stw_of-the-store"])
@pytest.mark.parametrize("insecure", ["", "?insecure_allow_remote=true"])
def test_another_machines_store_needs_tls_and_a_token_or_the_switch(
    scheme: str, host: str, token: str, insecure: str
) -> None:
    environ = {"STEPWELL_STORE_TOKEN": token, "XDG_STATE_HOME": "/nowhere"}

    def connect() -> None:
        place = parse(f"{scheme}://{host}:1{insecure}", {})
        Access(place.token_file, environ, must_be_named=place.wants_token)
        assert (place.tls is not None) is (scheme == "grpcs")

    if host == "127.0.0.1" or insecure or (scheme == "grpcs" and token):
        connect()
    else:
        with pytest.raises(StoreRefused, match="clear text" if scheme == "grpc" else "token"):
            connect()


@pytest.mark.parametrize(
    ("target", "given", "words"),
    [
        ("grpcs://a", {}, "write grpcs://HOST:PORT"),
        ("grpcs://a:1/b", {}, "write grpcs://HOST:PORT"),
        ("grpcs://a:1,b:1", {"tls_name": "a"}, "numbers of one kind"),
        ("grpcs://127.0.0.1:1,[::1]:1", {"tls_name": "a"}, "numbers of one kind"),
        ("grpcs://127.0.0.1:1,127.0.0.1:2", {}, "share one name"),
        ("127.0.0.1:1", {"tls_ca": "/nowhere/ca.pem"}, "nowhere/ca.pem can't be read"),
        ("127.0.0.1:1", {"tls_cert": "/nowhere/c.pem"}, "name both"),
    ],
)
def test_tls_that_cannot_be_is_refused_with_a_reason(
    target: str, given: dict[str, Any], words: str
) -> None:
    with pytest.raises(Misconfigured, match=words):
        Connection(target, token="t", environ={}, **given)
    with pytest.raises(Misconfigured, match="true or false"):
        Connection("a:1", environ={"STEPWELL_INSECURE_ALLOW_REMOTE": "perhaps"})


def test_words_of_grpc_that_are_not_about_tls_are_left_alone() -> None:
    assert handshake_trouble("failed to connect to all addresses; Connection refused") == ""
    assert "signed it (expired)" in handshake_trouble("CERTIFICATE_VERIFY_FAILED: expired: OK")
