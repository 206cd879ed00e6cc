"""The GraphQL query for what GitLab's REST interface does not have: what a note reports.

A note of GitLab's own has a text for people, and a name of the change that it reports. Only GraphQL
has the name.
"""

ACTIONS = """\
query actions($project: ID!, $request: String!, $after: String) {
  project(fullPath: $project) {
    mergeRequest(iid: $request) {
      notes(first: 100, after: $after) {
        pageInfo { hasNextPage endCursor }
        nodes { id systemNoteMetadata { action } }
      }
    }
  }
}
"""
