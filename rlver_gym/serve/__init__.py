"""Episodes over the wire: the server behind `rlver-gym serve`, and its client, an environment."""
