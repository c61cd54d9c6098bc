"""Compare methods: photographs x damage x methods, their scores side by side, and the figures of the paper."""
