"""The endpoints of the service, a file for each resource; ``ENDPOINTS`` lists them all."""

from chatsnapshot.server.endpoints import Endpoint
from chatsnapshot.server.routes import (
    checking,
    cloudevents,
    context,
    head,
    making,
    otlp,
    proving,
    reading,
    recording,
    store,
    stream,
    viewing,
)

__all__ = ["ENDPOINTS"]

ENDPOINTS: tuple[Endpoint, ...] = (
    *recording.ENDPOINTS,
    *reading.ENDPOINTS,
    *stream.ENDPOINTS,
    *viewing.ENDPOINTS,
    *context.ENDPOINTS,
    *checking.ENDPOINTS,
    *head.ENDPOINTS,
    *proving.ENDPOINTS,
    *store.ENDPOINTS,
    *making.ENDPOINTS,
    *otlp.ENDPOINTS,
    *cloudevents.ENDPOINTS,
)
