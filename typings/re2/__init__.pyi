"""The part of google-re2 that is used here; the package has no types of its own."""

class error(Exception): ...

class Options:
    log_errors: bool
    never_capture: bool
    max_mem: int

class _Regexp:
    @property
    def programsize(self) -> int: ...
    def search(self, text: bytes) -> object: ...

def compile(pattern: bytes, options: Options | None = None) -> _Regexp: ...
