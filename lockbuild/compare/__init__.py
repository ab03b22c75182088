"""Equal or not, and where not: what a person should look at first."""
