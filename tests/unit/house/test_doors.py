"""The doors of the tests: every test is behind one, and none that starts a server is behind the first by mistake."""

from __future__ import annotations

from itertools import product

import pytest

from tests.support import doors
from tests.support.doors import Door, doors_of

CHECK, TEST, STORES, PROOF, FRAMEWORKS = Door
SUITE = doors.ONCE


@pytest.mark.parametrize(
    ("path", "fixtures", "parameters", "sized", "expected"),
    [
        ("tests/unit/house/test_floors.py", (), "", False, {CHECK}),
        ("tests/unit/core/test_graph.py", (), "", False, {TEST}),
        ("tests/unit/store/test_stores.py", (), "postgres", False, {TEST}),
        ("tests/service/test_watch.py", ("world",), "sqlite", False, {TEST}),
        ("tests/service/test_served.py", ("served",), "postgres", False, {STORES}),
        ("tests/service/test_served.py", ("served",), "redis-seed-1", False, {STORES}),
        ("tests/service/test_edge.py", ("server", "backends"), "", False, {STORES}),
        ("tests/chaos/test_kills.py", (), "", False, {STORES}),
        ("tests/chaos/test_busy.py", (), "", True, {PROOF}),
        ("tests/service/test_tenants.py", ("served",), "sqlite", True, {PROOF, TEST}),
        ("tests/service/test_tenants.py", ("served",), "redis", True, {PROOF}),
        ("tests/frameworks/test_mcp.py", (), "postgres", False, {FRAMEWORKS}),
        ("tests/simulation/test_simulator.py", (), "range(0, 200)", True, {PROOF, TEST}),
        ("tests/simulation/test_crash_points.py", (), "redis-fork", True, {PROOF}),
        (SUITE, ("open_store",), "memory", False, {TEST}),
        (SUITE, ("open_store",), "redis_cluster", False, {TEST}),
        (SUITE, ("open_store",), "postgres-kind", False, {TEST}),
        (SUITE, ("open_store",), "grpc_memory", False, {TEST}),
        (SUITE, ("open_store",), "grpc_sqlite", False, {STORES}),
        (SUITE, ("open_store",), "grpc_postgres", False, {STORES}),
        (SUITE, ("open_store",), "valkey_cluster", False, {STORES}),
    ],
)
def test_door_follows_from_folder_fixtures_and_parameters(
    path: str, fixtures: tuple[str, ...], parameters: str, sized: bool, expected: set[Door]
) -> None:
    assert doors_of(path, fixtures=fixtures, parameters=parameters, sized=sized) == expected


def test_no_test_is_behind_no_door() -> None:
    folders = ["tests/unit", "tests/unit/house", "tests/new", "tests/frameworks", "", *doors.REAL]
    paths = [f"{folder}/test_it.py" for folder in folders] + [doors.ONCE]
    fixtures = [(), ("backends",)]
    parameters = ["", "postgres", "grpc_redis_cluster", "anything"]
    for path, asked, words, sized in product(paths, fixtures, parameters, [False, True]):
        behind = doors_of(path, fixtures=asked, parameters=words, sized=sized)
        assert behind in ({CHECK}, {TEST}, {STORES}, {PROOF}, {PROOF, TEST}, {FRAMEWORKS}), path


def test_folder_that_the_first_door_leaves_out_has_nothing_behind_it() -> None:
    for folder, words, sized in product(doors.REAL, ["", "memory", "postgres"], [False, True]):
        path = f"{folder}/deeper/test_it.py"
        assert TEST not in doors_of(path, fixtures=(), parameters=words, sized=sized)
        assert (doors.TOP / folder).is_dir()
    assert (doors.TOP / doors.ONCE).is_file()


def test_server_that_nobody_could_foresee_is_refused() -> None:
    with pytest.raises(AssertionError, match="ask for the fixture `backends`"):
        doors.refuse_servers()
