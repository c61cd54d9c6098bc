"""A local page to paint or find damage, restore, and compare: `diffbcp open`."""
