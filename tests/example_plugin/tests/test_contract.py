from gsnobench.check import assert_contract


def test_the_contract_holds():
    assert_contract("model", "pointmlp")
