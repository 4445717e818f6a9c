"""A module that fails on its eighth line, far from the node."""


def broken(orders):
    total = 0
    for order in orders:
        # What is not there has no name.
        total += order["customer"]["name"]
    return total
