"""The audit: attackers and utilities on raw and on anonymized videos, and what may be said of the difference."""
