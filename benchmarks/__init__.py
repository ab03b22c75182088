"""Benchmarks: each measures lockbuild and a real peer in the same run. See ``docs/benchmarks.md``."""
