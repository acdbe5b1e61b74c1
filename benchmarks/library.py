"""What the shipped library costs, in processor time and memory: python benchmarks/library.py"""

import resource
from time import process_time

from rlver_gym.library.personas import LIBRARY, PersonaLibrary
from rlver_gym.users.embedded.compile import compile_card

COMPILED = 100


def peak_mib() -> float:
    """Of this process, on Linux."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


start = process_time()
shelf = PersonaLibrary(LIBRARY)
indexed, before = process_time(), peak_mib()
personas = [shelf.get(name) for name in shelf.ids()]
made, after = process_time(), peak_mib()
for persona in personas[:COMPILED]:
    compile_card(persona)
compiled = process_time()
print(
    f"index {1e3 * (indexed - start):.0f} ms; {len(personas)} personas {made - indexed:.1f} s,"
    f" {after - before:.0f} MiB; compiling one {1e3 * (compiled - made) / COMPILED:.1f} ms"
)
