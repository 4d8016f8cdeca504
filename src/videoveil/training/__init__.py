"""Loops and what all of them share: devices, seeds, checkpoints that a killed run goes on from."""
