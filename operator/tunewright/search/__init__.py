"""The enumerated space, its neighbourhoods and the surrogate that learns where the analytic model is wrong."""
