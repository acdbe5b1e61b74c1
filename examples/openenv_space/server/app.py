"""The application that openenv.yaml names. Another user or card: arguments of `make_app`."""

# pyright: reportMissingImports=false
import sys

import uvicorn

from rlver_gym.integrations.openenv import make_app

app = make_app()


def main() -> None:
    """Serve on all addresses, at the port given as the argument, or at 8000."""
    uvicorn.run(app, host="0.0.0.0", port=int(sys.argv[1]) if len(sys.argv) > 1 else 8000)


if __name__ == "__main__":
    main()
