"""The endpoints of the service, a file for each resource; ``ENDPOINTS`` lists them all."""

from chatsnapshot.server.endpoints import Endpoint
from chatsnapshot.server.routes import head, recording

__all__ = ["ENDPOINTS"]

ENDPOINTS: tuple[Endpoint, ...] = (*head.ENDPOINTS, *recording.ENDPOINTS)
