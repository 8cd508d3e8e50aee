"""The documents as a site: `make site`. Sphinx with MyST renders the Markdown of the repository, where it lies."""
