"""The manifest's fields as Markdown tables, from the schema."""

from __future__ import annotations

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from .schema import Kernel, Library, Manifest, Row, Test

SECTIONS: tuple[tuple[str, type[BaseModel]], ...] = (
    ("The file", Manifest),
    ("`library:`", Library),
    ("A row", Row),
    ("A kernel", Kernel),
    ("`test:`", Test),
)


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True) if field.default is PydanticUndefined else field.default
    if value is None or isinstance(value, BaseModel) or (isinstance(value, (list, dict, str)) and not value):
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def table() -> str:
    """One table for each part of a manifest file: field, default, meaning.

    Raises ValueError for a field without a description.
    """
    parts = []
    for title, model in SECTIONS:
        lines = [f"### {title}", "", "| field | default | meaning |", "|---|---|---|"]
        for name, field in model.model_fields.items():
            if not field.description:
                raise ValueError(f"{model.__name__}.{name}: no description")
            lines.append(f"| `{name}` | {_default(field)} | {field.description} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"
