"""What the hub measures of itself and its hosts, for Prometheus and by OTLP."""
