from collections.abc import Sequence
from typing import Literal

class Axes:
    def bar(self, x: Sequence[float], height: Sequence[float], *, color: str) -> object: ...
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
    def set_xticks(self, ticks: Sequence[float], labels: Sequence[str], *, fontsize: float) -> object: ...
    def set_title(self, label: str, *, fontsize: float) -> object: ...
    def tick_params(self, *, axis: Literal["x", "y"], labelsize: float) -> None: ...
