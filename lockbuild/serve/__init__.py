"""A read-only HTTP mirror out of the store, for what the known locks name and for nothing else.

`library` says what that is, `server` and `connection` speak HTTP, `site` leads a request to the module that answers
it: one for each protocol (by digest, by URL, Python index, Debian archive, npm, git, OCI distribution).
"""
