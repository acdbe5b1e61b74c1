"""Frozen models, and cards that know a hash of their content, so that a record can say exactly which card it was made with."""

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """A model that cannot change and takes no unknown fields. Its cached properties are its own: copies begin without them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Pydantic's copy, which by itself would keep what the original had cached."""
        copy = super().model_copy(update=update, deep=deep)
        for name in set(vars(copy)) - set(type(copy).model_fields):
            del vars(copy)[name]
        return copy


class HashedCard(Frozen):
    """A card with a content hash."""

    unhashed: ClassVar[frozenset[str]] = frozenset()
    """Fields that only explain."""

    @cached_property
    def hash(self) -> str:
        """16 hex digits of SHA-256 over the content: equal exactly when every field that counts is equal."""
        content = self.model_dump(mode="json", exclude=set(self.unhashed))
        canonical = json.dumps(content, sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]
