from collections.abc import Sequence
from typing import Literal

class Axes:
    def barh(
        self, y: Sequence[float], width: Sequence[float], *, color: str, height: float
    ) -> object: ...
    def plot(
        self,
        x: Sequence[float],
        y: Sequence[float],
        fmt: str = "",
        /,
        *,
        color: str,
        markersize: float = ...,
    ) -> object: ...
    def set_yticks(
        self, ticks: Sequence[float], labels: Sequence[str], *, fontsize: float
    ) -> object: ...
    def set_xlim(self, *, left: float) -> object: ...
    def set_ylim(self, bottom: float, top: float) -> object: ...
    def set_title(self, label: str, *, fontsize: float) -> object: ...
    def tick_params(self, *, axis: Literal["x", "y"], labelsize: float) -> None: ...
