"""The routes of the page. Each has its own check of what its user may see or change, see `access`.

A page is a whole document. With `part=1` it is only what the script puts in its place, every five seconds while
somebody looks at it. A change is asked for in two steps: a preview, which shows what would be changed and why it may be
refused, and the change itself, which is made only to the record that the preview was of.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files
from typing import Annotated, Any
from urllib.parse import parse_qsl, urlencode
from uuid import UUID

from airflow.api_fastapi.common.db.common import SessionDep
from fastapi import Depends, FastAPI, HTTPException, Path, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.exceptions import HTTPException as StarletteHTTPException

from airflow_resume.attempt import utc_now
from airflow_resume.errors import ChangeRefusedError, ResumeError
from airflow_resume.operating.changes import Person
from airflow_resume.operating.kinds import Kind, differing
from airflow_resume.operating.places import AssetPlace, Entry, Place, TaskPlace
from airflow_resume.operating.steering import Plan, owner_of
from airflow_resume.operating.verbs import change_of
from airflow_resume.page import access, queries, steered, views
from airflow_resume.page.addresses import PREFIX
from airflow_resume.page.forms import FORMS, MOST_BYTES, MOST_FIELDS, UNDO, Asked, asked
from airflow_resume.shown import shown_lines

AssetId = Annotated[int, Path(ge=0, lt=2**31)]
POLL_SECONDS = 5
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
        " form-action 'self'; base-uri 'none'; frame-ancestors 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_STATIC = {"resume.css": "text/css", "resume.js": "text/javascript"}
_SEE_OTHER, _WRONG, _NOT_FOUND, _REFUSED, _TOO_LARGE, _UNREADABLE = 303, 400, 404, 409, 413, 422
_SAID = {
    401: "You are not logged in to Airflow. Log in, and load this page again.",
    403: "You may not see or do this. Ask for the right to read, or to edit, the Dag or the asset.",
    404: "There is no such page.",
    413: "This form is too large.",
    422: "Something in the address of this page is missing or is not what it should be.",
}
_REMEDIES = {
    "moved": "Load the page again.",
    "unknown": "Load the page again.",
    "running": "Wait until it has ended, or mark it as failed first; or go back, and type the name that is asked for.",
    "risk": "Go back, and type the name that is asked for, to do it nevertheless.",
}
"""By why a change was refused, what to do on the page; for others it is in the error."""
_HEADINGS = {401: "Not logged in", 403: "Not allowed", 404: "Not found", 409: "Refused"}
"""Of the pages that say why there is nothing else; after a form: that nothing was changed."""
_NOT_MAPPED = "{MAP_INDEX}"
"""What Airflow's UI leaves in an address if a task instance is not mapped."""
_MOST_INDEX = 2**31 - 1


def create_app() -> FastAPI:
    """The server of the page."""
    app = FastAPI(title="Airflow Resume", docs_url=None, redoc_url=None, openapi_url=None)
    app.add_exception_handler(StarletteHTTPException, _refused)
    app.add_exception_handler(RequestValidationError, _refused)
    app.add_exception_handler(ResumeError, _went_wrong)
    app.get("/task", dependencies=[access.may_see_tasks])(task_page)
    app.get("/run", dependencies=[access.may_see_tasks])(run_page)
    app.get("/dag", dependencies=[access.may_see_tasks])(dag_page)
    app.get("/marks", dependencies=[access.may_see_assets])(marks_page)
    app.get("/marks/{asset_id}", dependencies=[access.may_see_assets])(mark_page)
    app.get("/static/{name}", dependencies=[access.is_known])(static_file)
    changes_tasks = [access.may_change_tasks, access.sent_from_here]
    app.post("/task/preview", dependencies=changes_tasks)(preview_of_task)
    app.post("/task/change", dependencies=changes_tasks)(change_of_task)
    changes_assets = [access.may_change_assets, access.sent_from_here]
    app.post("/marks/{asset_id}/preview", dependencies=changes_assets)(preview_of_mark)
    app.post("/marks/{asset_id}/change", dependencies=changes_assets)(change_of_mark)
    return app


# --- what is asked for ----------------------------------------------------------------------------------------


def task_of(dag_id: str, run_id: str, task_id: str, map_index: str = "-1", region_id: str = "") -> TaskPlace:
    """The task instance in the address of a page.

    Raises:
        HTTPException: its map index is no number, or its region no UUID (422).
    """
    try:
        index = -1 if map_index in {"", _NOT_MAPPED} else int(map_index)
        region: dict[str, Any] = {"region_id": str(UUID(region_id)), "region_index": index} if region_id else {}
    except ValueError:
        raise HTTPException(_UNREADABLE) from None
    if abs(index) > _MOST_INDEX:
        raise HTTPException(_UNREADABLE)
    return TaskPlace(dag_id=dag_id, run_id=run_id, task_id=task_id, map_index=index, **region)


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """How a page is wanted.

    Args:
        part: only what changes. `page`: of a list. `done`: the change that was just made.
    """

    part: bool
    page: int
    done: str


def wanted(part: int = 0, page: int = 1, done: str = "") -> Wanted:
    """From the address of a page."""
    return Wanted(part=bool(part), page=page, done=done if done in _VERBS else "")


async def form_of(request: Request) -> dict[str, str]:
    """What was sent.

    Raises:
        HTTPException: it is too large (413).
    """
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BYTES:
            raise HTTPException(_TOO_LARGE)
    try:
        return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=MOST_FIELDS))
    except ValueError:
        raise HTTPException(_TOO_LARGE) from None


ItsTask = Annotated[TaskPlace, Depends(task_of)]
As = Annotated[Wanted, Depends(wanted)]
Sent = Annotated[dict[str, str], Depends(form_of)]

# --- what is shown --------------------------------------------------------------------------------------------


def task_page(request: Request, session: SessionDep, user: access.User, place: ItsTask, as_: As) -> HTMLResponse:
    """The records of a task instance."""
    found = queries.of_task(session, place)
    if not found.entries and not queries.is_there(session, place.dag_id, place.run_id, place.task_id):
        raise _no(f"task {place.task_id} in the run {place.run_id} of the Dag {place.dag_id}")
    may_change = access.may_change(request, user, place)
    return _cards(
        found,
        as_,
        cards=views.cards_of(found.entries, utc_now(), links=found.links, may_change=may_change),
        title=str(place),
        place=f"Task {views.where(place)}",
        up=(_dag(place.dag_id), _run(place.dag_id, place.run_id)),
        token=access.token_for(user),
        empty="No job and no loop of this task has a record.",
    )


def run_page(session: SessionDep, dag_id: str, run_id: str, as_: As) -> HTMLResponse:
    """The records of all task instances of a Dag run."""
    title, again = _run(dag_id, run_id)
    found = queries.of_run(session, dag_id, run_id)
    if not found.entries and not queries.is_there(session, dag_id, run_id):
        raise _no(f"run {run_id} of the Dag {dag_id}")
    listed = views.listed(found.entries, utc_now(), page=as_.page)
    empty = "No task of this run has a record."
    return _list(found, listed, as_, title=title, up=(_dag(dag_id),), again=again, empty=empty)


def dag_page(session: SessionDep, dag_id: str, as_: As) -> HTMLResponse:
    """The records of the task instances of a Dag that have not ended well."""
    title, again = _dag(dag_id)
    found = queries.of_dag(session, dag_id)
    if not found.entries and not queries.is_there(session, dag_id):
        raise _no(f"Dag {dag_id}")
    listed = views.listed(found.entries, utc_now(), page=as_.page, with_run=True)
    empty = "No task of this Dag is at work, or has failed, with a record. A Dag run has a tab with all of its records."
    return _list(found, listed, as_, title=title, up=(), again=again, empty=empty)


def marks_page(session: SessionDep, user: access.User, as_: As) -> HTMLResponse:
    """The watermarks of all assets."""
    found = queries.of_assets(session)
    found = replace(found, entries=[each for each in found.entries if access.may_see(user, each.place)])
    seen = access.seen_dags(user, views.owners_of(found.entries))
    listed = views.listed(found.entries, utc_now(), page=as_.page, seen=seen)
    return _list(found, listed, as_, title="Watermarks", up=(), again="marks?", empty="No asset has a watermark.")


def mark_page(request: Request, session: SessionDep, user: access.User, asset_id: AssetId, as_: As) -> HTMLResponse:
    """The watermarks of an asset."""
    found = queries.of_assets(session, asset_id)
    seen = access.seen_dags(user, views.owners_of(found.entries))
    name = found.entries[0].place.name if found.entries else queries.asset_name(session, asset_id)  # type: ignore[union-attr]
    if name is None:
        raise _no(f"asset with the number {asset_id}")
    may_change = access.may_change(request, user, AssetPlace(asset_id=asset_id, name=name))
    return _cards(
        found,
        as_,
        depth=1,
        cards=views.cards_of(found.entries, utc_now(), seen=seen, may_change=may_change),
        title=name,
        place=f"Asset {name}",
        up=(("Watermarks", "marks"),),
        token=access.token_for(user),
        empty="This asset has no watermark.",
    )


def static_file(name: str) -> Response:
    """The style and the script."""
    if name not in _STATIC:
        raise HTTPException(_NOT_FOUND)
    headers = {**HEADERS, "Cache-Control": "private, max-age=300"}
    return Response(_content(name), media_type=_STATIC[name], headers=headers)


def _no(what: str) -> HTTPException:
    """The error for what is not there."""
    return HTTPException(_NOT_FOUND, access.Said(f"There is no {what}. It may have been deleted or renamed."))


def _list(found: queries.Found, listed: views.Listed, as_: Wanted, **shown: Any) -> HTMLResponse:
    return _html("list.html", part=as_.part, listed=listed, is_cut=found.is_cut, most=queries.MOST, **shown)


def _cards(found: queries.Found, as_: Wanted, *, cards: list[views.Card], **shown: Any) -> HTMLResponse:
    shown |= {"cards": cards, "summary": views.summary_of(cards)}
    return _html("cards.html", part=as_.part, done=as_.done, is_cut=found.is_cut, most=queries.MOST, **shown)


def _dag(dag_id: str) -> tuple[str, str]:
    """The name of the page of a Dag, and its address."""
    return f"Dag {dag_id}", f"dag?{urlencode({'dag_id': dag_id})}"


def _run(dag_id: str, run_id: str) -> tuple[str, str]:
    return f"Run {run_id}", f"run?{urlencode({'dag_id': dag_id, 'run_id': run_id})}"


_VERBS = frozenset(form.verb for forms in FORMS.values() for form in (*forms, UNDO))

# --- changes --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Asker:
    """Who asks for a change of what.

    Args:
        session: of Airflow's database. `user`: who asks.
        place: where the record is. `name`: of the place, which is typed to force a change.
        page: the address of its page. `depth`: how far below the root the answer is.
    """

    session: Any
    user: Any
    place: Place
    name: str
    page: str
    depth: int


def preview_of_task(session: SessionDep, user: access.User, sent: Sent, place: ItsTask) -> HTMLResponse:
    """What a change of a job or a loop would do."""
    return _preview(_asker_of_task(session, user, place), sent, f"task/change?{views.query_of(place)}")


def change_of_task(session: SessionDep, user: access.User, sent: Sent, place: ItsTask) -> Response:
    """Change a job or a loop."""
    return _change(_asker_of_task(session, user, place), sent)


def preview_of_mark(session: SessionDep, user: access.User, sent: Sent, asset_id: AssetId) -> HTMLResponse:
    """What a change of a mark would do."""
    return _preview(_asker_of_mark(session, user, asset_id), sent, f"marks/{asset_id}/change")


def change_of_mark(session: SessionDep, user: access.User, sent: Sent, asset_id: AssetId) -> Response:
    """Change a mark."""
    return _change(_asker_of_mark(session, user, asset_id), sent)


def _asker_of_task(session: Any, user: Any, place: TaskPlace) -> Asker:
    page = f"task?{views.query_of(place)}"
    return Asker(session=session, user=user, place=place, name=place.task_id, page=page, depth=1)


def _asker_of_mark(session: Any, user: Any, asset_id: int) -> Asker:
    place = steered.asset_place(session, asset_id)
    return Asker(session=session, user=user, place=place, name=place.name, page=f"marks/{asset_id}?", depth=2)


def _preview(asker: Asker, sent: dict[str, str], to: str) -> HTMLResponse:
    ask, kind, person = _asked(asker, sent)
    planned = _planned(asker, ask, kind, person, locked=False)
    refusal = planned.refusal(force=False)
    may_see_all = _may_see_owner(planned, asker.user)
    return _html(
        "preview.html",
        depth=asker.depth,
        title=f"{ask.form.label}: {kind.noun} {ask.key.removeprefix(kind.prefix)} of {asker.place}",
        form=ask.form,
        before=_shown(kind, planned.entry, planned.planned, may_see_all=may_see_all),
        after=_shown(kind, planned.planned, planned.entry, may_see_all=may_see_all),
        again=tuple(zip(kind.again, (kind.retry(planned.after), kind.clear(planned.after)), strict=True)),
        risks=planned.change.risks,
        notes=planned.change.notes,
        refusal=None if refusal is None else _words_of(refusal, may_see_all=may_see_all),
        name=asker.name,
        hidden={"verb": ask.form.verb, "key": ask.key, "record": ask.record, "why": ask.why or "", **ask.typed},
        why=ask.why,
        token=access.token_for(asker.user),
        back=asker.page,
        to=to,
    )


def _change(asker: Asker, sent: dict[str, str]) -> Response:
    ask, kind, person = _asked(asker, sent)
    planned = _planned(asker, ask, kind, person, locked=True)
    is_forced = ask.force == asker.name
    refusal = planned.refusal(force=is_forced)
    if refusal is not None:
        words = _words_of(refusal, may_see_all=_may_see_owner(planned, asker.user))
        raise ChangeRefusedError(words, why=refusal.why)
    steered.carry_out(asker.session, planned, person, ask.form.verb, force=is_forced)
    to = f"{'../' * asker.depth}{asker.page}&done={ask.form.verb}".replace("?&", "?")
    return RedirectResponse(to, status_code=_SEE_OTHER, headers=HEADERS)


def _asked(asker: Asker, sent: dict[str, str]) -> tuple[Asked, Kind, Person]:
    """What was asked for, of which kind of records, and by whom.

    Raises:
        HTTPException: the form is not of this page (403), or there are no such records here (404).
        UsageError: a field of the form cannot be read.
    """
    access.check_token(sent.get("token", ""), asker.user)
    found = views.noun_of(sent.get("key", ""))
    if found is None or isinstance(asker.place, AssetPlace) != (found[0] == "marks"):
        raise HTTPException(_NOT_FOUND)
    ask = asked(found[0], sent)
    return ask, found[1], Person(who=asker.user.get_name(), at=utc_now(), why=ask.why)


def _planned(asker: Asker, ask: Asked, kind: Kind, person: Person, *, locked: bool) -> Plan[Any]:
    made = change_of(f"{kind.noun}s", ask.form.verb, ask.given, person)
    place = asker.place
    return steered.planned_change(asker.session, place, ask.key, kind, made, shown=ask.record, locked=locked)


def _shown(kind: Kind, entry: Entry, other: Entry, *, may_see_all: bool) -> dict[str, str]:
    """What differs, without the names of Dags that the user may not see."""
    found = differing(kind, entry, other, utc_now())
    return found if may_see_all else {name: text for name, text in found.items() if name not in _NAMES_OF_DAGS}


_NAMES_OF_DAGS = frozenset({"owner", "moved by", "moves"})


def _words_of(refusal: ChangeRefusedError, *, may_see_all: bool) -> str:
    if refusal.why != "running" or may_see_all:
        return refusal.message
    return "A task that may write this record is at work, and would write over the change. Nothing was changed."


def _may_see_owner(planned: Plan[Any], user: Any) -> bool:
    owner = owner_of(planned.before)
    return owner is None or owner.dag_id in access.seen_dags(user, {owner.dag_id})


# --- answers --------------------------------------------------------------------------------------------------


def _visible(value: Any) -> Any:
    """What is put into a page, without characters that a person cannot see, or that turn the text around."""
    return shown_lines(value) if type(value) is str else value  # Markup is of the templates themselves


@lru_cache(maxsize=1)
def templates() -> Environment:
    """The templates. Whatever they are given is text."""
    made = Environment(
        loader=PackageLoader("airflow_resume.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_visible,
    )
    made.globals["poll_seconds"] = POLL_SECONDS
    return made


@lru_cache(maxsize=8)
def _content(name: str) -> bytes:
    return files("airflow_resume.page").joinpath("static").joinpath(name).read_bytes()


def _html(template: str, *, part: bool = False, status: int = 200, depth: int = 0, **given: Any) -> HTMLResponse:
    text = templates().get_template(template).render(part=part, root="../" * depth, **given)
    return HTMLResponse(text, status_code=status, headers=HEADERS)


def _failed(request: Request, status: int, message: str, remedy: str | None = None) -> HTMLResponse:
    depth = request.url.path.rpartition(f"{PREFIX}/")[2].count("/")
    heading = "Nothing was changed" if request.method == "POST" else _HEADINGS.get(status, "This page cannot be shown")
    return _html("failed.html", status=status, depth=depth, title=heading, message=message, remedy=remedy)


async def _refused(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, StarletteHTTPException) else _UNREADABLE
    own = getattr(error, "detail", None)
    message = own if isinstance(own, access.Said) else _SAID.get(status, "This did not work.")
    return _failed(request, status, message)


async def _went_wrong(request: Request, error: Exception) -> Response:
    if not isinstance(error, ResumeError):
        raise error
    if isinstance(error, ChangeRefusedError):
        return _failed(request, _REFUSED, error.message, _REMEDIES.get(error.why, error.remedy))
    return _failed(request, _WRONG, error.message, error.remedy)
