"""What can be learnt and scored on videos or features: the utility tasks and their metrics."""
