"""Adapters that make the agents of frameworks durable in a step of Stepwell.

Each framework has a package here that imports it: `langgraph`, `openai_agents`, `pydantic_ai`. An extra of the same name
installs it.
"""
