"""Auto mode: switches recording on for the runtimes that a program imports, and records the process as a run."""
