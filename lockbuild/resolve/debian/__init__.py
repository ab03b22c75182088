"""Debian as a source: signed indexes, the closure of packages (`base`), upstream archives (`source`)."""
