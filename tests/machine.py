"""How busy the machine is: what a test may wait for is meant on a quiet one."""

import os


def slack():
    """By how much a limit of time grows: 1 on a quiet machine, 5 with a load of 10 on two cores."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
