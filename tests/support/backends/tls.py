"""A certificate for 127.0.0.1 and localhost, and the authority that signed it, for an hour of tests."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path

NAMES = "subjectAltName=DNS:localhost,IP:127.0.0.1"


def _openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


class Certificates:
    """Files: `authority` is what a client trusts, `certificate` and `key` are the server's."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o755)
        self.authority = folder / "ca.pem"
        self.certificate = folder / "server.pem"
        self.key = folder / "server.key"
        ec = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
        _openssl(
            folder,
            *("req", "-x509", *ec, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=test CA"),
            *("-addext", "basicConstraints=critical,CA:TRUE"),
        )
        _openssl(
            folder,
            *("req", "-x509", *ec, "-keyout", "server.key", "-out", "server.pem"),
            *("-CA", "ca.pem", "-CAkey", "ca.key", "-subj", "/CN=localhost", "-addext", NAMES),
            *("-addext", "basicConstraints=critical,CA:FALSE"),
        )
        self.key.chmod(0o600)

    def server_context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.certificate, self.key)
        return context

    def client_context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.authority)
