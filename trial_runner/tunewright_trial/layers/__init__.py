"""The transformer of a `ModelArchitecture`, at the shapes of one rank.

Activations are (tokens of the sequence, micro batch, width), as in Megatron, so that gathering the sequence needs no
copy. Between the blocks of a layer the sequence is split over the tensor group (sequence parallelism).
"""
