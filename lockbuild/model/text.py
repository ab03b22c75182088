"""Values that stand in files as one string, and the hooks by which pydantic reads and writes them so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:  # pydantic calls the hooks; whoever only uses the value need not import it
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic_core import core_schema


class TextValue:
    """A value with a text form: ``str()`` gives it, `parse` reads it."""

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the text form; ValueError for anything else."""
        raise NotImplementedError

    @classmethod
    def text_schema(cls) -> dict[str, Any]:
        """The JSON Schema of the text form."""
        raise NotImplementedError

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(
            cls._accept, serialization=core_schema.to_string_ser_schema()
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return cls.text_schema()

    @classmethod
    def _accept(cls, value: object) -> Self:
        if isinstance(value, cls):
            return value
        if not isinstance(value, str):
            raise ValueError("must be a string")
        return cls.parse(value)
