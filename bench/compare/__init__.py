"""The comparison: what detent and other tools do when a worker stops, dies, or is asked twice."""
