"""Foreign training loops: one file each, and the only place that imports them."""
