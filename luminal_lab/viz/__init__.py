"""Pictures: charts for notebooks. The one place where plotting libraries are imported."""
