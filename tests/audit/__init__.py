"""Tests of the audit share what makes findings."""
