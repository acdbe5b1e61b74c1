"""The algorithms: from rewards to advantages, losses and steps. Knows no run folder."""
