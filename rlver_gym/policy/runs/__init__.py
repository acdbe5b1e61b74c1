"""The folder of a training: its config, metrics, checkpoints and curves."""
