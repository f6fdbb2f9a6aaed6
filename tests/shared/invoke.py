"""Run `wiretape` commands in this process."""

from click.testing import CliRunner, Result

from wiretape.cli import wiretape


def invoke(*arguments: object, env: dict[str, str] | None = None) -> Result:
    """Run a command to its end, with these changes of the environment."""
    return CliRunner().invoke(wiretape, [str(each) for each in arguments], env=env)


def succeed(*arguments: object) -> Result:
    """Run a command that exits with status 0."""
    result = invoke(*arguments)
    assert result.exit_code == 0, result.output
    return result


def refusal(*arguments: object) -> str:
    """Run a command that is refused with status 2 and one sentence, below the usage if click refuses it; return it."""
    result = invoke(*arguments)
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    *usage, error = result.stderr.splitlines()
    assert not usage or usage[0].startswith("Usage: "), result.stderr
    assert error.startswith("Error: ")
    assert error.isprintable()
    return error
