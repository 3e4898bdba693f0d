"""Adapters that make the agents of frameworks durable in a step of Stepwell.

Each framework has a package here that imports it: `langgraph`, `openai_agents`, `pydantic_ai`. An extra of the same name
installs it.

Once this package is imported, an attempt that ends with an error that can't mend (`final_errors`) is the last one.
"""

from __future__ import annotations

from stepwell_client.internal import FINAL_CHECKS
from stepwell_frameworks.final_errors import is_final

FINAL_CHECKS.append(is_final)
