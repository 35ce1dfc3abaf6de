"""The numbers that a paper prints, and ours beside them.

`paper` reads the printed numbers, `ledger` compares each with our result and writes the page.
"""
