"""Reads the settings: a flag, else the environment, else the file, else the default.

`Loaded.origins` records which. Reads the configuration file and the environment, nothing else.
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from detent.errors import Misconfigured
from detent.settings import FILE_NAME, TABLES, Loaded, Settings, name
from detent.suggestions import did_you_mean

TYPE_NAMES = {str: "a string", int: "an integer", bool: "true or false", tuple: "a list"}


def load(
    flags: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> Loaded:
    """Settings from flags over environment over file over defaults."""
    environment = os.environ if environment is None else environment
    file = file or find_file(Path.cwd())
    document = _read(file) if file else {}
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for each in fields(Settings):
        values[each.name], origins[each.name] = _value(
            each, flags or {}, environment, document, file
        )
    if not values["store_data_dir"]:
        values["store_data_dir"] = str(default_data_dir(file))
    tables = {key: value for key, value in document.items() if key not in _sections()}
    return Loaded(Settings(**values), origins, tables, file)


def find_file(start: Path) -> Path | None:
    """The configuration file in this directory or in one above it."""
    for directory in (start, *start.parents):
        if (directory / FILE_NAME).is_file():
            return directory / FILE_NAME
    return None


def default_data_dir(file: Path | None) -> Path:
    """Beside the configuration file if there is one, else in the user's data directory."""
    if file:
        return file.parent / ".detent"
    import platformdirs  # imported late: commands start fast, and most find a file

    return Path(platformdirs.user_data_dir("detent"))


def _sections() -> set[str]:
    return {name(each.name).split(".")[0] for each in fields(Settings)}


def _read(file: Path) -> dict[str, Any]:
    try:
        document = tomllib.loads(file.read_text("utf-8-sig"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise Misconfigured(
            f"{file} cannot be read: {error}",
            setting=str(file),
            hint="Correct the file. It must contain TOML, and detent must be allowed to read it.",
        ) from None
    known = {name(each.name) for each in fields(Settings)}
    for section in document.keys() - _sections() - {*TABLES}:
        raise _unknown_section(file, section)
    for section in _sections() & document.keys():
        if not isinstance(document[section], dict):
            raise Misconfigured(
                f"{file}: {section} must be a section, [{section}].", setting=section
            )
        for key in document[section]:
            if f"{section}.{key}" not in known:
                setting = f"{section}.{key}"
                allowed = sorted(each for each in known if each.startswith(section + "."))
                raise Misconfigured(
                    f"{file}: there is no setting {setting}.",
                    setting=setting,
                    hint=f"{did_you_mean(setting, allowed)}Known settings: {', '.join(allowed)}.",
                )
    return document


def _unknown_section(file: Path, section: str) -> Misconfigured:
    listed = sorted(_sections() | {*TABLES})
    return Misconfigured(
        f"{file}: there is no section {section}.",
        setting=section,
        hint=f"{did_you_mean(section, listed)}Known sections: {', '.join(listed)}.",
    )


def _value(
    each: Any,
    flags: Mapping[str, Any],
    environment: Mapping[str, str],
    document: Mapping[str, Any],
    file: Path | None,
) -> tuple[Any, str]:
    section, key = name(each.name).split(".")
    variable = f"DETENT_{each.name.upper()}"
    if flags.get(each.name) is not None:
        return _in_range(flags[each.name], each, name(each.name)), "flag"
    if variable in environment:
        value = _read_text(environment[variable], each.default, variable)
        return _in_range(value, each, variable), f"environment {variable}"
    if key in document.get(section, {}):
        value = _checked(document[section][key], each.default, f"{section}.{key}")
        return _in_range(value, each, f"{section}.{key}"), str(file)
    return each.default, "default"


def _in_range(value: Any, each: Any, where: str) -> Any:
    """Return the value; refuse a number outside the range of its setting."""
    minimum, maximum = each.metadata["minimum"], each.metadata["maximum"]
    if type(value) is int and not (minimum <= value and (maximum is None or value <= maximum)):
        allowed = f"at least {minimum}" if maximum is None else f"from {minimum} to {maximum}"
        raise Misconfigured(f"{where} must be {allowed}, not {value}.", setting=name(each.name))
    return value


def _read_text(text: str, default: Any, where: str) -> Any:
    """A value from the environment, of the default's type."""
    if isinstance(default, bool):
        if text.lower() not in ("true", "false", "1", "0", "yes", "no"):
            raise Misconfigured(f"{where} must be true or false, not {text!r}.", setting=where)
        return text.lower() in ("true", "1", "yes")
    if isinstance(default, int):
        try:
            return int(text)
        except ValueError:
            message = f"{where} must be an integer, not {text!r:.80}."
            raise Misconfigured(message, setting=where) from None
    if isinstance(default, tuple):
        return tuple(part.strip() for part in text.split(",") if part.strip())
    return text


def _checked(value: Any, default: Any, where: str) -> Any:
    """A value from the file, which must have the default's type."""
    if isinstance(default, tuple) and isinstance(value, list):
        for each in value:
            if not isinstance(each, str):
                message = f"{where} must be a list of strings, and {each!r:.80} is no string."
                raise Misconfigured(message, setting=where)
        return tuple(value)
    if type(value) is not type(default):
        wanted = TYPE_NAMES[type(default)]
        raise Misconfigured(f"{where} must be {wanted}, not {value!r}.", setting=where)
    return value
