"""The spool: events for a service are durable on this machine first and are sent on in order (``mode="spool"``)."""
