"""Interfaces of the kind of Gymnasium's: a reset and a step, in words or by strategy."""
