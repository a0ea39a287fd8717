"""The runtimes as the contract of adapters drives them, each with its own test model."""
