"""How ranks work together: sequence and tensor parallelism, experts, pipeline, data parallelism and optimizer."""
