"""The GraphQL queries for what GitHub's REST interface does not have: threads of a review."""

THREADS = """\
query threads($owner: String!, $name: String!, $number: Int!, $after: String) {
  repository(owner: $owner, name: $name) {
    pullRequest(number: $number) {
      reviewThreads(first: 50, after: $after) {
        pageInfo { hasNextPage endCursor }
        nodes {
          id isResolved path diffSide line startLine originalLine originalStartLine
          comments(first: 100) {
            nodes {
              databaseId body authorAssociation
              author { login }
            }
          }
        }
      }
    }
  }
}
"""

RESOLVE = """\
mutation resolve($thread: ID!) {
  resolveReviewThread(input: {threadId: $thread}) { thread { id isResolved } }
}
"""
