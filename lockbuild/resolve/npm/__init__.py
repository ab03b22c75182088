"""Packages of the npm registry, as a project's own package-lock.json names them."""
