"""CloudEvents 1.0 become events (``docs/cloudevents.md`` has the tables); the export writes them."""
