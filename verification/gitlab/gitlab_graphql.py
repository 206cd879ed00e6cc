"""The GraphQL interface of the GitLab of tests: what change a note of GitLab's own reports.

The types are a part of GitLab's schema.
"""

from typing import Any

from graphql import build_schema, graphql_sync

from verification.gitlab.gitlab_state import MergeRequestState, NoteState, ProjectState

MAX_PAGE = 100
SCHEMA = build_schema(
    """
    type Query { project(fullPath: ID!): Project }
    type Project { mergeRequest(iid: String!): MergeRequest }
    type MergeRequest { iid: String! notes(first: Int, after: String): NoteConnection! }
    type NoteConnection { nodes: [Note] pageInfo: PageInfo! }
    type PageInfo { endCursor: String hasNextPage: Boolean! }
    type Note {
      id: NoteID!
      body: String!
      system: Boolean!
      systemNoteMetadata: SystemNoteMetadata
    }
    type SystemNoteMetadata { action: String }
    scalar NoteID
    """
)


def execute(project: Any, body: dict[str, Any]) -> dict[str, Any]:
    """The response to a query. `project` returns a project by its path, or None."""

    def find(_: Any, fullPath: str) -> dict[str, Any] | None:  # noqa: N803  # name of GraphQL
        found = project(fullPath)
        return None if found is None else {"mergeRequest": _requests(found)}

    done = graphql_sync(SCHEMA, body["query"], {"project": find}, None, body.get("variables"))
    return dict(done.formatted)


def _requests(project: ProjectState) -> Any:
    def find(_: Any, iid: str) -> dict[str, Any] | None:
        found = project.requests.get(int(iid))
        return None if found is None else {"iid": iid, "notes": _notes(found)}

    return find


def _notes(request: MergeRequestState) -> Any:
    def page(_: Any, first: int = MAX_PAGE, after: str | None = None) -> dict[str, Any]:
        every = [note for notes in request.discussions.values() for note in notes]
        at, size = int(after or 0), min(first, MAX_PAGE)
        shown, end = every[at : at + size], at + size
        more = {"hasNextPage": end < len(every), "endCursor": str(end)}
        return {"nodes": [_note(each) for each in shown], "pageInfo": more}

    return page


def _note(note: NoteState) -> dict[str, Any]:
    kind = "DiffNote" if note.position is not None else "Note"
    metadata = {"action": note.action} if note.action is not None else None
    fields = {"id": f"gid://gitlab/{kind}/{note.id}", "body": note.body, "system": note.system}
    return {**fields, "systemNoteMetadata": metadata}
