"""What happens to a task, and what should come out."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial, wraps
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from airflow_resume.shown import short_repr
from airflow_resume.testing.operators.player import Case, Player, told
from airflow_resume.testing.operators.report import AT_ONCE, JOB_LEFT, NO_JOB_LEFT, OTHER, SAME, Played
from airflow_resume.testing.operators.signals import HangsError

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator

UNAVAILABLE = 503


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One scenario.

    Args:
        play: plays it.
        ideal: what should come out.
        needs: what is missing for it in this case; None if nothing is.
        options: arguments of the operator.
    """

    play: Callable[[Player], Played]
    ideal: tuple[Played, ...]
    needs: Callable[[Case], str | None] = lambda _case: None
    options: Callable[[Case], Mapping[str, Any]] = lambda _case: {}


def _plain(player: Player) -> Played:
    return player.judged(player.run())


def _crash_while_waiting(player: Player) -> Played:
    player.killed()
    return player.judged(player.run())


def _crash_after_all_is_done(player: Player) -> Played:
    player.run()
    player.retry()
    return player.judged(player.run())


def _crash_in_the_window(player: Player) -> Played:
    player.when("made", 1, player.signals.kill)
    player.run()
    player.retry()
    return player.judged(player.run())


def _job_fails(player: Player) -> Played:
    player.service.follow(player.case.bad())
    if (first := player.run()).how == "returned":
        return player.played("does not fail")
    player.service.follow(player.case.good())
    player.attempt = player.attempt.reschedule() if first.how == "rescheduled" else player.attempt.retry()
    return player.judged(player.run())


def _deploy(player: Player) -> Played:
    player.service.follow([player.service.running])
    player.while_waiting(player.terminate)
    ended = player.run()
    player.service.follow(player.case.good())
    player.attempt = player.attempt.reschedule() if ended.how == "rescheduled" else player.attempt.retry()
    return player.judged(player.run())


def _marked_failed(player: Player) -> Played:
    def mark() -> None:
        player.attempt.mark("failed")
        player.terminate()

    player.service.follow([player.service.running])
    player.while_waiting(mark)
    ended = player.run()
    left = any(job.is_alive for job in player.service.seen())
    return player.played(JOB_LEFT if left else NO_JOB_LEFT, "" if not left else told(ended)[0])


def _marked_failed_on_a_retry(player: Player) -> Played:
    player.service.follow([player.service.running])
    player.killed()
    return _marked_failed(player)


def _forgotten(player: Player, *, is_done: bool) -> Played:
    if is_done:
        player.run()
        player.retry()
    else:
        player.killed()
    for job in player.service.seen():
        player.service.forget(job.id)
    return player.judged(player.run())


def _cleared(player: Player, *, is_done: bool) -> Played:
    if is_done:
        player.run()
    else:
        player.service.follow([player.service.running])
        player.killed()
        player.service.follow(player.case.good())  # an operator that does not cancel it may wait for its end
    player.attempt = player.attempt.clear()
    return player.judged(player.run())


def _not_waiting(player: Player) -> Played:
    player.service.follow([player.service.running])
    first = player.run()
    if first.how != "returned":
        return player.played(*told(first))
    player.retry()
    second = player.run()
    if second.how != "returned":
        return player.played(*told(second))
    return player.played(AT_ONCE if first.value == second.value else OTHER)


def _deferrable(player: Player) -> Played:
    for is_retry in (False, True):
        if is_retry:
            player.retry()
        deferred = player.run()
        if deferred.how != "deferred":
            result, detail = ("returns", "") if deferred.how == "returned" else told(deferred)
            return player.played("does not defer", f"{result} {detail}".rstrip())
    error: Any = deferred.error
    try:
        event = player.event_of(error.trigger)
    except (Exception, HangsError) as failure:  # noqa: BLE001  it is a part of the report
        return player.played("the trigger fails", short_repr(failure))
    player.service.follow([player.service.succeeded])
    player.attempt = player.attempt.resume()
    return player.judged(player.resume(error, event))


def _mapped(player: Player) -> Played:
    def unmapped() -> BaseOperator:
        made, arguments = _made_with(player.make)
        task_id = arguments.pop("task_id")
        name, value = _argument_to_map(made, arguments, player.case.expand)
        arguments.pop(name, None)
        mapped = type(made).partial(task_id=task_id, **arguments).expand(**{name: [value]})
        unmapped: BaseOperator = mapped.unmap({name: value})
        return unmapped

    player.attempt = player.begin(unmapped, map_index=0)
    return player.judged(player.run())


def check_expand(make: Callable[[], BaseOperator], expand: str | None) -> None:
    """Refuse an operator of which no argument can be mapped, before anything is played.

    Args:
        make: makes the operator.
        expand: the argument that is to be mapped; None: any.

    Raises:
        ValueError: it has no such argument, or none that can be mapped.
    """
    made, arguments = _made_with(make)
    _argument_to_map(made, arguments, expand)


def _made_with(make: Callable[[], BaseOperator]) -> tuple[BaseOperator, dict[str, Any]]:
    """An operator, and the arguments of the call that made it, with the default arguments of its Dag and task group.

    Airflow's list of them also has those with which its `__init__` calls that of its base, so the call is watched.
    """
    kind: Any = type(make())
    given: dict[str, Any] = {}
    init = kind.__init__

    @wraps(init)
    def watched(operator: BaseOperator, **arguments: Any) -> None:
        given.update(arguments)
        init(operator, **arguments)

    watched.__wrapped__ = init.__wrapped__  # Airflow compares it with the function that it calls
    with patch.object(kind, "__init__", watched):
        made: Any = make()
    defaults = [one.default_args for one in (made.get_dag(), made.task_group) if one is not None]
    known = {*given, *(given.get("default_args") or {})}.union(*defaults)
    known -= {"dag", "task_group"}
    everything = made._BaseOperator__init_kwargs  # noqa: SLF001  Airflow has no other list of them
    return made, {name: value for name, value in everything.items() if name in known}


def _argument_to_map(made: BaseOperator, arguments: Mapping[str, Any], expand: str | None) -> tuple[str, Any]:
    """What is mapped, with its value: by default a template field that was given, else any argument of its own."""
    from airflow.sdk import BaseOperator

    of_all = inspect.signature(BaseOperator.__init__).parameters
    own = [base for base in type(made).__mro__ if issubclass(base, BaseOperator) and base is not BaseOperator]
    parameters = {
        name: parameter
        for base in reversed(own)
        if "__init__" in vars(base)
        for name, parameter in inspect.signature(vars(base)["__init__"]).parameters.items()
        if parameter.kind not in {parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL} and name not in {*of_all, "self"}
    }
    defaults = {name: each.default for name, each in parameters.items() if each.default is not each.empty}
    if expand is not None:
        values = {**defaults, **arguments}
        if expand in values:
            return expand, values[expand]
        raise ValueError(
            f"expand={expand!r} is no argument that {type(made).__name__} was given, or has a default of."
            f"\nName one of these: {', '.join(sorted(parameters)) or 'none'}; and give it a value where it is made"
        )
    for name in (*made.template_fields, *arguments):
        if name in arguments and name not in of_all:
            return name, arguments[name]
    raise ValueError(
        f"No argument of {type(made).__name__} was given that can be mapped."
        f"\nName one: expand=. It has: {', '.join(sorted(parameters)) or 'none'}"
    )


def _unavailable_once(player: Player) -> Played:
    player.when("asked", 1, lambda: player.service.fail_next(UNAVAILABLE))
    return player.judged(player.run())


def _unknown_status(player: Player) -> Played:
    running, unknown = player.service.running, player.service.unknown
    player.service.follow([running, unknown, unknown, *player.case.good()])
    return player.judged(player.run())


def _row(jobs: int, cancelled: int = 0, result: str = SAME) -> Played:
    return Played(jobs=jobs, most_alive=1, cancelled=cancelled, result=result)


def _needs(name: str) -> Callable[[Case], str | None]:
    return lambda case: None if getattr(case, name) is not None else f"{name}="


SCENARIOS: Mapping[str, Scenario] = {
    "plain": Scenario(play=_plain, ideal=(_row(1),)),
    "crash while waiting": Scenario(play=_crash_while_waiting, ideal=(_row(1),)),
    "crash after all is done": Scenario(play=_crash_after_all_is_done, ideal=(_row(1),)),
    "crash in the window": Scenario(play=_crash_in_the_window, ideal=(_row(1),)),
    "job fails": Scenario(play=_job_fails, ideal=(_row(2),)),
    "deploy": Scenario(play=_deploy, ideal=(_row(1),)),
    "marked failed": Scenario(play=_marked_failed, ideal=(_row(1, 1, NO_JOB_LEFT),)),
    "marked failed on a retry": Scenario(play=_marked_failed_on_a_retry, ideal=(_row(1, 1, NO_JOB_LEFT),)),
    "forgotten, job done": Scenario(play=partial(_forgotten, is_done=True), ideal=(_row(1), _row(2))),
    "forgotten, job running": Scenario(play=partial(_forgotten, is_done=False), ideal=(_row(2),)),
    "cleared, job done": Scenario(play=partial(_cleared, is_done=True), ideal=(_row(2),)),
    "cleared, job alive": Scenario(play=partial(_cleared, is_done=False), ideal=(_row(2, 1),)),
    "not waiting": Scenario(
        play=_not_waiting,
        ideal=(_row(1, result=AT_ONCE),),
        needs=_needs("not_waiting"),
        options=lambda case: case.not_waiting or {},
    ),
    "deferrable": Scenario(
        play=_deferrable,
        ideal=(_row(1),),
        needs=_needs("deferrable"),
        options=lambda case: case.deferrable or {},
    ),
    "mapped": Scenario(play=_mapped, ideal=(_row(1),)),
    "503 once": Scenario(play=_unavailable_once, ideal=(_row(1),)),
    "unknown status": Scenario(
        play=_unknown_status,
        ideal=(_row(1),),
        needs=lambda case: None if case.service.unknown is not None else "a service with a state `unknown`",
    ),
}
"""What can happen, by name; docs/testing.md describes each."""
