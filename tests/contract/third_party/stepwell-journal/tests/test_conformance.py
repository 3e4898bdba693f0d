"""The suite that every driver is held to; `open_store` stands in conftest.py."""

from stepwell_testkit.conformance import *  # noqa: F403 - the suite is made to be taken whole
