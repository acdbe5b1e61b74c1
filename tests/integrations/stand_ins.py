"""Stand-ins for frameworks that cannot be installed: only while what needs them is imported, so
that no other test takes them for the framework.
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any


@contextmanager
def stand_in(modules: Mapping[str, Mapping[str, Any]]) -> Iterator[None]:
    """Have the names of modules mean these members; name the packages that they are in, too.

    Modules that are there already stay as they are.
    """
    made = {name: ModuleType(name) for name in modules if name not in sys.modules}
    for name, module in made.items():
        vars(module).update(modules[name])
    sys.modules.update(made)
    try:
        yield
    finally:
        for name in made:
            del sys.modules[name]
