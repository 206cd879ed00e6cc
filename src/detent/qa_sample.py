"""The sample project of `runQA`: a function and its tests."""

# ruff: noqa: PT009, PT027 - it also runs where pytest is not installed

import unittest


def price(amount: int, discount_percent: int = 0) -> int:
    """The price in cents after a discount, rounded down."""
    if not 0 <= discount_percent <= 100:
        raise ValueError(f"a discount is 0 to 100 percent, not {discount_percent}")
    return amount * (100 - discount_percent) // 100


class PriceTest(unittest.TestCase):
    def test_without_a_discount_it_is_the_amount(self) -> None:
        self.assertEqual(price(1_000), 1_000)

    def test_a_discount_is_taken_off(self) -> None:
        self.assertEqual(price(999, 10), 899)

    def test_a_discount_over_100_percent_is_refused(self) -> None:
        with self.assertRaises(ValueError):
            price(1_000, 101)
