"""Make WebAssembly/WebGPU builds a pure function of a lock file."""

__version__ = "0.1.0"
