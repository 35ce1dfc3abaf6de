"""The numbers that a paper prints, and ours beside them.

`paper` reads the printed numbers, `counterparts` finds our number beside one, `commands` says what
would measure it, `related` lists printed numbers that follow from others, and `ledger` gives every
number its verdict and writes the page.
"""
