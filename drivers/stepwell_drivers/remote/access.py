"""The token for a Store service, and where it came from. The token is never shown."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from grpc.aio import Metadata

from stepwell.core.records.errors import StoreRefused
from stepwell_client.token_file import default_token_file

TOKEN_VARIABLE = "STEPWELL_STORE_TOKEN"  # noqa: S105 - the variable's name, not a token
_TOKEN_BYTES_MAX = 4_096


class Access:
    """Adds the token to every call, and reads a token's file again after a refusal."""

    def __init__(
        self,
        token_file: Path | None,
        environ: Mapping[str, str] | None = None,
        *,
        must_be_named: bool = False,
    ) -> None:
        """`must_be_named` says that the token file of this user's own server must not be used for
        this service.

        Raises:
            StoreRefused: the named file is missing or holds no token, or none was named.
        """
        environ = os.environ if environ is None else environ
        given = environ.get(TOKEN_VARIABLE, "").strip() if token_file is None else ""
        if must_be_named and token_file is None and not given:
            raise StoreRefused(
                "the Store service is on another machine, and no token was named for it: name its file"
                f" with ?token_file=PATH, or set {TOKEN_VARIABLE}"
            )
        self._must_exist = token_file is not None
        self._file = token_file or default_token_file(environ)
        self._is_file = not given
        self._token = _checked(given, TOKEN_VARIABLE) if given else self._read()
        self.metadata = self._metadata()

    def __repr__(self) -> str:
        return f"Access({self.source})"

    @property
    def source(self) -> str:
        """Return where the token came from, or was expected."""
        return f"the file {self._file}" if self._is_file else TOKEN_VARIABLE

    def reload(self) -> bool:
        """Read the file again; return whether the token has changed."""
        if not self._is_file:
            return False
        try:
            token = self._read()
        except StoreRefused:
            return False
        changed = token != self._token
        self._token = token
        self.metadata = self._metadata()
        return changed

    def _metadata(self) -> Metadata:
        return Metadata(("authorization", f"Bearer {self._token}")) if self._token else Metadata()

    def _read(self) -> str:
        try:
            with self._file.open("rb") as file:
                data = file.read(_TOKEN_BYTES_MAX + 1)
        except FileNotFoundError:
            if self._must_exist:
                raise StoreRefused(f"the token file {self._file} is not there") from None
            return ""
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise StoreRefused(f"the token file {self._file} can't be read: {why}") from None
        return _checked(data.decode("ascii", "replace").strip(), f"the token file {self._file}")


def _checked(token: str, source: str) -> str:
    if not token or len(token) > _TOKEN_BYTES_MAX or not (token.isascii() and token.isprintable()):
        raise StoreRefused(f"{source} holds no token")
    return token
