from google.protobuf import descriptor_pb2 as _descriptor_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor
LIMIT_FIELD_NUMBER: _ClassVar[int]
limit: _descriptor.FieldDescriptor
ONE_IS_REQUIRED_FIELD_NUMBER: _ClassVar[int]
one_is_required: _descriptor.FieldDescriptor

class Limit(_message.Message):
    __slots__ = ("required", "name_chars", "or_star", "chars", "bytes", "escaped", "min", "max", "items", "each", "key", "one_of", "reason")
    REQUIRED_FIELD_NUMBER: _ClassVar[int]
    NAME_CHARS_FIELD_NUMBER: _ClassVar[int]
    OR_STAR_FIELD_NUMBER: _ClassVar[int]
    CHARS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    ESCAPED_FIELD_NUMBER: _ClassVar[int]
    MIN_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    EACH_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    ONE_OF_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    required: bool
    name_chars: int
    or_star: bool
    chars: int
    bytes: int
    escaped: bool
    min: int
    max: int
    items: int
    each: Limit
    key: Limit
    one_of: _containers.RepeatedScalarFieldContainer[int]
    reason: str
    def __init__(self, required: bool = ..., name_chars: _Optional[int] = ..., or_star: bool = ..., chars: _Optional[int] = ..., bytes: _Optional[int] = ..., escaped: bool = ..., min: _Optional[int] = ..., max: _Optional[int] = ..., items: _Optional[int] = ..., each: _Optional[_Union[Limit, _Mapping]] = ..., key: _Optional[_Union[Limit, _Mapping]] = ..., one_of: _Optional[_Iterable[int]] = ..., reason: _Optional[str] = ...) -> None: ...
