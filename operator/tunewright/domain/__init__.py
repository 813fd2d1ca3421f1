"""Values of the domain: models, hardware, configurations. No behaviour beyond what follows from the values."""
