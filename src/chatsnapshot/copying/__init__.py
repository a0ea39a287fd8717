"""Copies of ledgers between any two stores: once or followed live, whole entries with their blobs and erasures."""

from chatsnapshot.copying.following import Following, follow
from chatsnapshot.copying.once import Copied, copy
from chatsnapshot.standby import promote

__all__ = ["Copied", "Following", "copy", "follow", "promote"]
