"""The command `stepwell health`."""

from __future__ import annotations

from typing import Annotated

import grpc
import typer
from grpc_health.v1 import health_pb2

from stepwell.cli import options
from stepwell.cli.connect import Connection, connecting
from stepwell.cli.errors import explain
from stepwell.cli.exits import CliError, Exit
from stepwell.cli.view.terminal import put_json
from stepwell_client import StepwellClientError, internal

EXAMPLES = {"health": "stepwell health --target unix:/run/stepwell/stepwell.sock"}

_Response = health_pb2.HealthCheckResponse


@connecting
def health(
    where: Connection,
    service: Annotated[
        str,
        typer.Option(
            "--service", metavar="NAME", help="One service, such as stepwell.store.v1.Store."
        ),
    ] = "",
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout", metavar="SECONDS", min=0.1, max=600, help="Seconds to wait for an answer."
        ),
    ] = 5.0,
    json: options.Json = False,
) -> int:
    """Ask whether the service is ready.

    Ready means that its store takes commits. Needs no token. Exits with 0 if it is, 1 if it isn't, 5
    if nobody answers: fit for a container's health check.
    """
    try:
        connection = internal.Connection(where.target, token="", **where.security)
    except StepwellClientError as error:
        raise CliError(error.message) from error
    target = connection.target
    with connection.sync_channel() as channel:
        check = channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
            response_deserializer=_Response.FromString,
        )
        try:
            response = check(health_pb2.HealthCheckRequest(service=service), timeout=timeout)
        except grpc.RpcError as error:
            raise _explained(error, target, service) from error
    status = _Response.ServingStatus.Name(response.status)
    ready = response.status == _Response.SERVING
    if json:
        put_json({"status": status, "target": target})
    else:
        print(f"{target} is {'ready' if ready else f'not ready: {status}'}")
    return Exit.DONE if ready else Exit.FAILED


def _explained(error: grpc.RpcError, where: str, service: str) -> CliError:
    failed = internal.from_rpc_error(error)
    if failed.status is grpc.StatusCode.NOT_FOUND:
        return CliError(f"{where} serves no {service!r}", Exit.USAGE)
    return CliError(explain(failed, where), Exit.UNREACHABLE)
