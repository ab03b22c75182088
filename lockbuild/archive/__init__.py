"""Tar, zip and ``.deb`` as pure functions over files and streams: canonical writing, safe reading."""
