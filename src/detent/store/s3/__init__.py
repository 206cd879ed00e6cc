"""Blobs and output of ended runs on S3-compatible storage, beside a store in a database."""
