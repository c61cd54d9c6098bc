"""Low-rank tensor models of a photograph: a decomposition with a cumulative-shrinkage prior on its rank.

For every decomposition: `tensorize` lays the photograph out as a tensor, `likelihood` holds what was measured and
draws the noise, `grams` and `algebra` form the sums, `solve` draws Gaussians from their precision, `cusp` draws and
adapts the rank. For CP: `cp` has the model and its conditionals, `cp_sweep` one Gibbs sweep, `cp_cg` the same draws
for large blocks, `stream` the sweep for photographs that do not fit in memory at once.
"""
