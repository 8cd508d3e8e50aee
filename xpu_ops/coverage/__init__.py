"""The coverage report: every ATen overload of the installed torch with a verdict."""
