"""The subcommand `completion`: scripts for shells, made from the parser, so that they have all that it has."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping

PROGRAM = "airflow-resume"
FUNCTION = "_airflow_resume"


def run(options: argparse.Namespace) -> int:
    """Print the script."""
    words = dict(words_of(options.parser))
    print({"bash": bash, "zsh": zsh, "fish": fish}[options.shell](words))
    return 0


def words_of(
    parser: argparse.ArgumentParser, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """What may follow, by the subcommands before it: subcommands, options, and values of an argument."""
    words: list[str] = []
    inner: list[tuple[str, argparse.ArgumentParser]] = []
    for action in parser._actions:  # noqa: SLF001  argparse has no other way to ask
        words += [option for option in action.option_strings if option.startswith("--")]
        if isinstance(action.choices, Mapping):
            inner += action.choices.items()
            words += action.choices
        elif action.choices is not None and not action.option_strings:
            words += map(str, action.choices)
    yield path, words
    for name, subparser in inner:
        yield from words_of(subparser, (*path, name))


def bash(words: Mapping[tuple[str, ...], list[str]]) -> str:
    """For bash: the words of the longest run of subcommands that was typed."""
    cases = "\n".join(f'    "{" ".join(path)}") words="{" ".join(each)}" ;;' for path, each in words.items())
    return f"""{FUNCTION}() {{
  local path="" candidate word words
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    candidate="${{path:+$path }}$word"
    case "$candidate" in
{_paths(words)}
    esac
  done
  case "$path" in
{cases}
  esac
  COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F {FUNCTION} {PROGRAM}"""


def _paths(words: Mapping[tuple[str, ...], list[str]]) -> str:
    known = "|".join(f'"{" ".join(path)}"' for path in words if path)
    return f'      {known}) path="$candidate" ;;'


def zsh(words: Mapping[tuple[str, ...], list[str]]) -> str:
    """For zsh: its emulation of bash's completion."""
    return f"autoload -U +X bashcompinit && bashcompinit\n{bash(words)}"


def fish(words: Mapping[tuple[str, ...], list[str]]) -> str:
    """For fish: a line for each run of subcommands."""
    lines = [f"complete -c {PROGRAM} -f"]
    for path, each in words.items():
        typed = " and ".join(["true", *(f"__fish_seen_subcommand_from {name}" for name in path)]).replace(
            " and ", "; and "
        )
        later = [name for other in words for name in other[len(path) :] if other[: len(path)] == path and other != path]
        not_yet = f"; and not __fish_seen_subcommand_from {' '.join(sorted(set(later)))}" if later else ""
        lines.append(f"complete -c {PROGRAM} -n '{typed}{not_yet}' -a '{' '.join(each)}'")
    return "\n".join(lines)
