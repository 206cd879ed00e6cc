// What GitLab sends and takes, as @gitbeaker/core declares it, for the documents that detent uses.
// Fields that the declarations lack are added here, as GitLab documents them.
import type * as gitlab from "@gitbeaker/core";

// Declared with texts as numbers of lines, and without comments about a whole file.
interface Position {
  base_sha: string;
  start_sha: string;
  head_sha: string;
  position_type: "text" | "image" | "file";
  old_path: string;
  new_path: string;
  old_line?: number | null;
  new_line?: number | null;
  line_range?: { start: Line; end: Line } | null;
}

interface Line {
  line_code?: string;
  type?: "new" | "old" | "expanded" | null;
  old_line?: number | null;
  new_line?: number | null;
}

// Declared without `resolved`, and with a text instead of a person in `resolved_by`.
interface DiscussionNote extends gitlab.DiscussionNoteSchema {
  position?: Position;
  resolved?: boolean;
  resolved_by?: gitlab.DiscussionNoteSchema["author"] | null;
  resolved_at?: string | null;
}

interface Discussion extends gitlab.DiscussionSchema {
  notes: DiscussionNote[];
}

interface Branch extends gitlab.BranchSchema {
  commit: gitlab.CommitSchema;
}

interface Approvals extends gitlab.MergeRequestLevelMergeRequestApprovalSchema {
  approved: boolean;
  approved_by: gitlab.ApprovedByEntity[];
}

export interface Documents {
  // Responses of the REST interface.
  user: gitlab.ExpandedUserSchema;
  project: gitlab.ProjectSchema;
  member: gitlab.MemberSchema;
  branch: Branch;
  issue: gitlab.IssueSchemaWithBasicLabels;
  note: gitlab.NoteSchema;
  listed_request: gitlab.MergeRequestSchemaWithBasicLabels;
  request: gitlab.ExpandedMergeRequestSchema;
  reviewer: gitlab.MergeRequestReviewerSchema;
  approvals: Approvals;
  version: gitlab.MergeRequestDiffVersionsSchema;
  discussion: Discussion;
  discussion_note: DiscussionNote;
  status: gitlab.CommitStatusSchema;
  // Deliveries of webhooks.
  issue_event: gitlab.WebhookIssueEventSchema;
  issue_note_event: gitlab.WebhookIssueNoteEventSchema;
  request_event: gitlab.WebhookMergeRequestEventSchema;
  request_note_event: gitlab.WebhookMergeRequestNoteEventSchema;
  pipeline_event: gitlab.WebhookPipelineEventSchema;
  push_event: gitlab.WebhookPushEventSchema;
  // Options of requests.
  list_issues: gitlab.AllIssuesOptions;
  list_requests: gitlab.AllMergeRequestsOptions;
  create_request: gitlab.CreateMergeRequestOptions;
  accept_request: gitlab.AcceptMergeRequestOptions;
  create_status: gitlab.EditPipelineStatusOptions;
}
