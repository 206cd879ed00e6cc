"""The race: detent beside what people would use instead, each in an environment of its own."""
