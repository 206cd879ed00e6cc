"""The keeper: one process at a time sees to what is due. Nothing depends on it for speed."""
