"""Sphinx's configuration, for the folder that tools/site/__main__.py stages."""

project = "xpu_ops"
author = "the xpu_ops authors"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 4  # as GitHub makes them
myst_enable_extensions = ["colon_fence"]
html_theme = "furo"
html_title = "xpu_ops"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_extra_path = ["_extra"]
exclude_patterns = ["_extra", "_files", "_static"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
pygments_style = "friendly"
pygments_dark_style = "native"
# A document that mentions a file of the repository links to it; such files are copied beside the pages.
suppress_warnings = ["myst.header"]
highlight_language = "none"
