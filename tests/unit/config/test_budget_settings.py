"""Default budgets in the settings: by file and environment, for all tenants and for one."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwell.config import SettingsRefused, load


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def _file(text: str) -> None:
    Path("stepwell.toml").write_text(text)


def test_the_file_has_a_default_and_tenants() -> None:
    _file("[budgets.default]\ntasks = 5\n[budgets.tenants.'team:a']\ncost_micros = 7\n")
    budgets = load().budgets
    assert budgets.default.tasks == 5
    assert budgets.tenants["team:a"].cost_micros == 7
    assert budgets.tenants["team:a"].model_fields_set == {"cost_micros"}


def test_the_environment_names_them_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPWELL_BUDGETS__DEFAULT__INPUT_TOKENS", "1000")
    monkeypatch.setenv("STEPWELL_BUDGETS__TENANTS__ACME__WALL_MS", "60000")
    budgets = load().budgets
    assert budgets.default.input_tokens == 1_000
    assert budgets.tenants["acme"].wall_ms == 60_000


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("[budgets.default]\ntokens = 5\n", "budgets.default.tokens: there is no such setting"),
        ("[budgets.tenants.a]\ncost = 5\n", "budgets.tenants.a.cost: there is no such setting"),
        ("[budgets.defaults]\ntasks = 5\n", "budgets.defaults: there is no such setting"),
        ("[budgets.default]\ntasks = -1\n", "budgets.default.tasks"),
        ("[budgets.tenants.'no name']\ntasks = 1\n", "budgets.tenants"),
    ],
)
def test_invalid_budget_is_refused_by_its_path(text: str, path: str) -> None:
    _file(text)
    with pytest.raises(SettingsRefused, match=path.replace(".", r"\.")):
        load()
