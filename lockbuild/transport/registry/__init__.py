"""Registries of images and artefacts: OCI distribution specification 1.1, as a client."""
