"""Emscripten: releases of its SDK and its ports, read from its own repositories as data."""
