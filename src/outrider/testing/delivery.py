"""Carries out one step of the script on a client's connection."""

import asyncio

from outrider.testing import steps, wire
from outrider.testing.connection import Connection
from outrider.testing.steps import Endless, Reply, Step, StreamEnd
from outrider.testing.wire import ModelRequest

_EVENTS = "text/event-stream"
_JSON = "application/json"


async def deliver(step: Step, request: ModelRequest, connection: Connection) -> None:
    """Do what the step says; cancelled when the client leaves or the server closes."""
    match step:
        case Reply() if request.stream:
            await _stream(step, request, connection)
        case Reply():
            await _complete(step, request, connection)
        case steps.HttpResponse():
            connection.respond(step.status, step.body.encode(), step.content_type, step.headers)
        case Endless():
            await _go_on_for_ever(step, request, connection)
        case steps.Silence():
            await _wait_for_ever()
        case steps.HangUp():
            connection.hang_up()


async def _stream(reply: Reply, request: ModelRequest, connection: Connection) -> None:
    connection.begin_chunks(_EVENTS)
    connection.chunk(wire.opening(request))
    for piece in wire.pieces(reply, request):
        if reply.delay:
            await connection.flush()
            await asyncio.sleep(reply.delay)
        connection.chunk(piece)
    connection.chunk(wire.closing(reply, request))
    if reply.ending in (StreamEnd.SILENT, StreamEnd.RESET):
        await _break_off(reply, connection)
    else:
        connection.end_chunks()


async def _complete(reply: Reply, request: ModelRequest, connection: Connection) -> None:
    if reply.delay:
        await asyncio.sleep(reply.delay * sum(1 for _ in wire.pieces(reply, request)))
    body = wire.completion_body(reply, request)
    half = body[: len(body) // 2]
    match reply.ending:
        case StreamEnd.FINISHED:
            connection.respond(200, body)
        case StreamEnd.MALFORMED:
            connection.respond(200, half)
        case StreamEnd.ERROR if reply.error:
            connection.respond(reply.error.status, reply.error.body.encode())
        case _:
            connection.respond(200, half, promised=len(body))
            await _break_off(reply, connection)


async def _break_off(reply: Reply, connection: Connection) -> None:
    await connection.flush()
    match reply.ending:
        case StreamEnd.SILENT:
            await _wait_for_ever()
        case StreamEnd.RESET:
            connection.reset()
        case _:
            connection.hang_up()


async def _go_on_for_ever(step: Endless, request: ModelRequest, connection: Connection) -> None:
    first, again = wire.endless_parts(step, request)
    connection.begin_chunks(_EVENTS if request.stream else _JSON)
    connection.chunk(first)
    for _ in range(step.max_bytes // max(len(again), 1)):
        connection.chunk(again)
        await connection.flush()
        # Even with a delay of 0: the other connections and a cancellation need their turn.
        await asyncio.sleep(step.delay)
    connection.end_chunks()


async def _wait_for_ever() -> None:
    await asyncio.get_running_loop().create_future()
