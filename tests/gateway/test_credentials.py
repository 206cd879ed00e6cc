"""The table of credentials and places: each pair is accepted or refused as it says."""

from pathlib import Path

from verification.fault_injection import credentials


def test_a_credential_is_accepted_in_its_own_place_alone(tmp_path: Path) -> None:
    assert credentials.run(tmp_path) == []


def test_the_table_names_what_is_tried() -> None:
    tried = {(each, place) for each in credentials.CREDENTIALS for place in credentials.PLACES}
    assert tried > credentials.ACCEPTED
