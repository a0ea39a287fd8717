"""Real servers for tests and benchmarks: started from installed packages on loopback, stopped with their user."""
