"""What `adsum up` keeps running: the embedded broker, hub and collector as processes of their own."""
