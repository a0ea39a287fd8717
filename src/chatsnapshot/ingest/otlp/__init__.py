"""OTLP: spans and log records of OpenTelemetry become events (``docs/otlp.md`` has the tables)."""
