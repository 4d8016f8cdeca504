"""Action recognition: a linear probe on features, or a whole video network trained on clips."""
