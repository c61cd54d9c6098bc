"""Low-rank tensor models of a photograph: a decomposition with a cumulative-shrinkage prior on its rank.

For every decomposition: `tensorize` lays the photograph out as a tensor, `likelihood` holds what was measured and
draws the noise, `grams` and `algebra` form the sums, `solve` draws Gaussians from their precision, `cusp` draws and
adapts the rank. For CP: `cp` has the model and its conditionals, `cp_sweep` one Gibbs sweep, `cp_blocks` the draws of
factors and weights, `cp_cg` those of large blocks, `stream` those of photographs that do not fit in memory at once.
For tensor trains and rings: `ring` has the model, `ring_draws` the conditionals, `ring_sweep` the sweep and rank
adaptation, `tt` and `tr` what sets them apart.
"""
