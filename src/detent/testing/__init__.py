"""What users may import to test their own use of detent."""
