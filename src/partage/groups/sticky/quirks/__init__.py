"""Defects of Kafka's sticky classes and inputs that no real client sends."""
