"""What `diffbcp` knows of the method before it imports it; nothing heavy may be imported here."""

from diffbcp_cli.options.methods import MethodEntry

METHOD = MethodEntry(
    "each missing pixel is the mean of its four neighbours; no std",
    (),
    takes_prior=False,
    defaults={"iterations": 200},
    module="harmonic_fill.method",
    path=True,
)
