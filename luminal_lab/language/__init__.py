"""Whole models of language: from a folder that somebody published to what people ask of it."""
