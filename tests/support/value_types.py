"""Types of many kinds for tests of values, and all of a value as text."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import math
import uuid
from dataclasses import InitVar, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NamedTuple, NotRequired, TypedDict, TypeVar
from zoneinfo import ZoneInfo

import pydantic
from pydantic import ConfigDict, Field, SecretBytes, SecretStr
from pydantic.alias_generators import to_camel

T = TypeVar("T")
NAN = math.nan
SOME_ID = uuid.UUID("f47ac10b-58cc-4372-a567-0e02b2c3d479")
DAY = datetime.date(2026, 10, 25)
MOMENT = datetime.datetime(2026, 10, 25, 2, 30, 1, 5)  # noqa: DTZ001 - without a zone on purpose
ZONE = ZoneInfo("Europe/Paris")


class Colour(enum.Enum):
    RED = "red"
    PAIR = (1, 2)


class Level(enum.IntEnum):
    LOW = 1


class Mode(enum.StrEnum):
    FAST = "fast"


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


@dataclass
class Item:
    n: int


@dataclass
class Page(Generic[T]):
    items: list[T]
    next: T | None = None


@dataclass
class ItemPage(Page[Item]):
    more: int = 0


@dataclass
class Derived(Item):
    more: int = 2


@dataclass(frozen=True, slots=True)
class Slots:
    n: int
    made: int = field(init=False, default=3)


@dataclass
class Seeded:
    n: int
    seed: InitVar[int] = 5
    total: int = field(init=False)

    def __post_init__(self, seed: int) -> None:
        self.total = self.n + seed


@dataclass
class Unmakeable:
    n: int
    seed: InitVar[int]


@dataclass
class Positive:
    n: int

    def __post_init__(self) -> None:
        if self.n <= 0:
            raise LookupError("not positive")


@dataclass
class Mixed:
    key: SecretStr
    names: dict[int, str]
    score: float
    data: bytes
    rest: Any = None


class Point(NamedTuple):
    x: int
    data: bytes = b""
    day: datetime.date | None = None


class Meeting(TypedDict):
    day: datetime.date
    room: NotRequired[str | None]


class Mail(pydantic.BaseModel):
    sender: str = Field(alias="from")
    reply_to: str | None = Field(None, alias="replyTo")


class Reply(Mail):
    text: str = ""


class Envelope(pydantic.BaseModel):
    mail: Mail


class Camel(pydantic.BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="forbid")
    reply_to: str | None = None

    @pydantic.computed_field
    @property
    def length(self) -> int:
        return len(self.reply_to or "")


class Apart(pydantic.BaseModel):
    written: str = Field("", serialization_alias="toWrite")
    read: str = Field("", validation_alias=pydantic.AliasPath("toRead", 0))


class Settings(pydantic.BaseModel):
    key: SecretStr
    raw: SecretBytes = SecretBytes(b"abc")


class Scores(pydantic.BaseModel):
    score: float | None = NAN
    others: list[float] = [math.inf, -math.inf]


class Hidden(pydantic.BaseModel):
    shown: int = 0
    hidden: str = Field("as it was", exclude=True)


class Lost(pydantic.BaseModel):
    hidden: str = Field(exclude=True)


class Private(pydantic.BaseModel):
    n: int = 0
    _count: int = pydantic.PrivateAttr(0)


class Blob(pydantic.BaseModel):
    data: bytes


class Order(pydantic.BaseModel):
    class State(enum.Enum):
        OPEN = "open"

    state: State
    at: datetime.datetime
    tags: frozenset[int]
    prices: dict[uuid.UUID, decimal.Decimal]
    span: datetime.timedelta
    path: Path


class Box(pydantic.BaseModel, Generic[T]):
    thing: T


class Cat(pydantic.BaseModel):
    kind: Literal["cat"] = "cat"
    n: int


class Dog(pydantic.BaseModel):
    kind: Literal["dog"] = "dog"
    n: int


class Zoo(pydantic.BaseModel):
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]


class Strict(pydantic.BaseModel):
    model_config = ConfigDict(strict=True)
    at: datetime.datetime
    numbers: tuple[int, ...]


class Unknown:
    def __repr__(self) -> str:
        return "Unknown()"


def written(value: Any) -> str:
    """Return all of a value as text, with the types of its parts and without the order of sets."""
    kind = type(value).__qualname__
    if isinstance(value, dict):
        return f"{kind}{[(written(key), written(one)) for key, one in value.items()]}"
    if isinstance(value, list | tuple):
        return f"{kind}{[written(one) for one in value]}"
    if isinstance(value, set | frozenset):
        return f"{kind}{sorted(map(written, value))}"
    if isinstance(value, SecretStr | SecretBytes):
        return f"{kind}{value.get_secret_value()!r}"
    if isinstance(value, datetime.datetime):
        return f"{kind}{value.isoformat()}"
    if isinstance(value, pydantic.BaseModel):
        return f"{kind}{written(dict(value))}"
    if dataclasses.is_dataclass(value):
        names = [one.name for one in dataclasses.fields(value)]
        return f"{kind}{[(name, written(getattr(value, name))) for name in names]}"
    return f"{kind}{value!r}"
