// Every shape and operation that the gateway's OpenAPI document has. Written by ./dev generate.


export type AcceptManyBody = {
  ids: Array<string>;
  comment?: string | null;
  seen?: Record<string, number> | null;
  without_action?: boolean;
};

export type AcceptTaskBody = {
  comment?: string | null;
  seen?: number | null;
  diff?: string | null;
  without_action?: boolean;
};

/** An acceptance with an action (merge, push), which the job carries out before it counts. */
export type Acceptance = {
  action: string;
  by: string;
  job_id: string;
  state: string;
  problem: string | null;
  branch: string | null;
  commit: string | null;
};

/** The result of a bulk action on one id; state and version are null if it was deleted. */
export type Acted = {
  id: string;
  state: string | null;
  version: number | null;
  outcome: unknown;
};

/** The result of a bulk action: every given id is in `items` or in `refused`. */
export type ActedOn = {
  items: Array<Acted>;
  refused: Array<RefusedWork>;
};

export type AddBody = {
  intent: string;
  source: string;
  payload?: Record<string, unknown>;
  not_before?: string | null;
  priority?: "P0" | "P1" | "P2" | "P3" | "high" | "normal" | "low";
  idempotency_key?: string | null;
};

export type AddCommentBody = {
  diff: string;
  file: string;
  side?: "before" | "after";
  start: number;
  end: number;
  text: string;
};

/** A task that was submitted with `POST /add` or `POST /enqueue`. */
export type Added = {
  taskId: string;
  status: string;
  repeated: boolean;
};

export type AnswerJobBody = {
  answer: unknown;
  question?: string | null;
};

export type AnswerTaskBody = {
  answer: unknown;
  question?: string | null;
  seen?: number | null;
  idempotency_key?: string | null;
};

/** The appearance of a kind of state: its shape, its glyph and its two colours. */
export type Appearance = {
  shape: string;
  glyph: string;
  terminal: string;
  ink: string;
  paper: string;
};

/** What was asked for. */
export type Asked = {
  payload: unknown;
  acceptance_criteria: unknown;
};

export type AssignTaskBody = {
  person?: string | null;
};

export type BeginRunBody = {
  hold_s?: number;
};

/** A manual run, and until when the caller holds it. */
export type BegunRun = {
  id: string;
  job_id: string;
  task_id: string | null;
  held_until: string;
};

/** The circuit breaker of a service: `closed`, `open` or `half_open`. */
export type Breaker = {
  state: string;
  failures: number;
  open_until: string | null;
};

export type CancelJobBody = {
  reason?: string;
};

export type CancelManyBody = {
  ids: Array<string>;
  reason?: string;
};

export type CancelTaskBody = {
  reason?: string;
  seen?: number | null;
};

/** A file that two diffs of a task leave in different states. */
export type ChangedFile = {
  path: string;
  old_path: string | null;
  added: number;
  removed: number;
  binary: boolean;
};

/** What the checker of a task has found about the work under review. */
export type Check = {
  task_id: string;
  checker: string;
  state: string;
  accept: boolean | null;
  diff: string | null;
  result: unknown;
};

export type ChooseVariantBody = {
  variant: number | string;
  seen?: number | null;
  diff?: string | null;
};

export type CliLoginBody = {
  code: string;
  verifier: string;
};

/** A comment with its replies. A comment without a place in this diff is outdated. `round` is the round in which it was written; the first one is 1. */
export type Comment = {
  id: string;
  author: string;
  at: string;
  round: number;
  state: "open" | "resolved";
  text: string;
  anchor: CommentAnchor;
  place: CommentPlace | null;
  replies: Array<CommentReply>;
};

/** What a comment was written for: lines of a file on one side of a diff. `start` and `end` are 0 for a comment on the whole file. */
export type CommentAnchor = {
  diff: string;
  file: string;
  side: "after" | "before";
  start: number;
  end: number;
  quoted: Array<string>;
};

/** Where the lines of a comment are in another diff. */
export type CommentPlace = {
  file: string;
  side: "after" | "before";
  start: number;
  end: number;
};

/** `run_id` is the run that replied; null for a reply of a person. */
export type CommentReply = {
  id: string;
  author: string;
  at: string;
  text: string;
  run_id: string | null;
};

/** What was done with a comment; `reply_id` is the new reply, if one was added. */
export type Commented = {
  task_id: string;
  comment_id: string;
  reply_id: string | null;
  outcome: string;
  version: number;
};

/** The comments of a task, oldest first, and the drafts of the caller. `diff` is the diff in which the places are; null if the task has none. */
export type Comments = {
  diff: string | null;
  comments: Array<Comment>;
  drafts: Array<Draft>;
};

/** `left` is the smallest remaining budget of the task and its ancestors; null: no limit. */
export type Costs = {
  id: string;
  budget: number | null;
  left: number | null;
  warned: boolean;
  own: Spending;
  tree: Spending;
  tasks: Array<TaskCost>;
  runs: Array<RunCost>;
};

/** By lifecycle, the number in each state. */
export type Counts = {
  lifecycles: Record<string, Record<string, number>>;
  active: number;
};

export type CreateProjectBody = {
  name: string;
};

export type CreateTokenBody = {
  name: string;
  scopes: Array<"read" | "submit" | "operate" | "review" | "run" | "admin">;
  project?: string | null;
  expires_in_s?: number | null;
};

export type DayCost = {
  day: string;
  cost: number;
  runs: number;
};

export type DeleteManyBody = {
  ids: Array<string>;
};

export type Deleted = {
  id: string;
  outcome: "deleted";
};

export type Deliveries = {
  items: Array<Delivery>;
};

/** A delivery that has not succeeded: `state` is pending, or dead after it was given up. */
export type Delivery = {
  id: string;
  state: string;
  position: number;
  attempts: number;
  due_at: string | null;
  error: string | null;
  body: string;
};

/** The diagram of a lifecycle, in coordinates. */
export type Diagram = {
  id: string;
  name: string;
  width: number;
  height: number;
  boxes: Array<DiagramBox>;
  arrows: Array<DiagramArrow>;
};

/** The transitions between two states as one arrow: an SVG path, and the centre of its label. */
export type DiagramArrow = {
  source: string | null;
  target: string;
  extension: boolean;
  events: Array<string>;
  path: string;
  x: number;
  y: number;
};

/** A state in the diagram; the one without a name is the start. */
export type DiagramBox = {
  state: string;
  x: number;
  y: number;
  width: number;
  height: number;
  loops: Array<string>;
};

/** A file of a diff. Modes are octal text, null if the diff does not have them. */
export type DiffFile = {
  path: string;
  old_path: string | null;
  status: "added" | "copied" | "deleted" | "modified" | "renamed";
  added: number;
  removed: number;
  binary: boolean;
  generated: boolean;
  generated_kind: "generated" | "lock_file" | "long_lines" | "minified" | "vendored" | null;
  old_mode: string | null;
  new_mode: string | null;
  image: boolean;
  image_before: EvidenceFile | null;
  image_after: EvidenceFile | null;
  lines: number;
};

export type DismissManyBody = {
  ids: Array<string>;
  reason?: string | null;
};

export type DismissTaskBody = {
  reason?: string | null;
};

/** A comment that only its author sees; a draft of a reply has no anchor. */
export type Draft = {
  id: string;
  at: string;
  text: string;
  reply_to: string | null;
  anchor: DraftAnchor | null;
  place: CommentPlace | null;
};

/** As the anchor of a comment, without the quoted lines. */
export type DraftAnchor = {
  diff: string;
  file: string;
  side: "after" | "before";
  start: number;
  end: number;
};

/** Whether a worker is draining. */
export type Drained = {
  name: string;
  draining: boolean;
};

/** Durations of the runs that were read, in seconds; null without runs. */
export type Durations = {
  p50_s: number | null;
  p95_s: number | null;
  mean_s: number | null;
};

/** The last diff of an earlier round. The first round is 1. */
export type EarlierDiff = {
  round: number;
  run_id: string;
  sha256: string;
  at: string;
};

export type EditTaskBody = {
  title?: string | null;
  payload?: unknown;
  tags?: Array<string> | null;
  priority?: "P0" | "P1" | "P2" | "P3" | "high" | "normal" | "low";
  options?: Record<string, unknown> | null;
  max_budget_usd?: number | null;
  seen?: number | null;
};

/** The state of the task in the other lifecycle, as an MCP task and as an A2A task. */
export type Elsewhere = {
  other: string | null;
  mcp: string;
  a2a: string;
};

export type EndRunBody = {
  exit_code?: number | null;
  error?: string | null;
  outcome?: "succeeded" | "failed" | "timeout" | "cancelled";
  error_class?: "network" | "timeout" | "dependency" | "cancelled" | "budget" | "lost" | "rate_limit" | "error" | "resource" | "needs_user" | "resource_limit";
  result?: unknown;
};

export type EndedSession = {
  id: string;
  ended: boolean;
};

export type EnqueueBody = {
  intent: string;
  payload: Record<string, unknown>;
  taskId: string;
  source: string;
  priority: "P0" | "P1" | "P2" | "P3" | "high" | "normal" | "low";
  not_before?: string | null;
};

/** One event of the log. */
export type Event = {
  position: number;
  stream: string;
  version: number;
  name: string;
  subject: string | null;
  project: string;
  at: string;
  actor: string;
  data: unknown;
};

/** An evidence file of a run. */
export type Evidence = {
  run_id: string;
  file: string;
  kind: string;
  sha256: string;
  size: number;
  media_type: string;
  at: string;
};

/** The run and the name of an evidence file. */
export type EvidenceFile = {
  run_id: string;
  file: string;
};

export type EvidenceList = {
  items: Array<Evidence>;
};

export type ForkJobBody = {
  step: string;
  id?: string | null;
};

/** The new job, and the names of the results that it keeps from its source. */
export type Forked = {
  id: string;
  source: string;
  until: string;
  kept: Array<string>;
};

/** The health. The verdict is that of the worst reason. `system` has the figures of gateway, store, keeper, workers and queue; `work` has those of the work that people gave it. */
export type Health = {
  verdict: string;
  reasons: Array<HealthReason>;
  shown: Array<HealthFigure>;
  waiting_for_people: number;
  system: HealthGroup;
  work: HealthGroup;
};

export type HealthFigure = {
  figure: string;
  value: number | null;
  limit: number | null;
  within: boolean;
};

/** Figures that belong together. The verdict is that of the worst of them. */
export type HealthGroup = {
  verdict: string;
  reasons: Array<HealthReason>;
};

export type HealthReason = {
  figure: string;
  verdict: string;
  text: string;
};

/** A job that a worker holds. */
export type Held = {
  job_id: string;
  task_id: string | null;
  intent: string;
  since: string;
};

/** A step that holds a resource. */
export type Holder = {
  job_id: string;
  step: string;
  since: string;
};

/** The ids that match a text; `more`: there are others. */
export type Ids = {
  items: Array<string>;
  more: boolean;
};

/** Tasks that wait for a person, questions of jobs without a task and of live runs, and refused submissions; in each list, the highest priority is first, then the oldest. */
export type Inbox = {
  count: number;
  snoozed: number;
  items: Array<InboxTask>;
  questions: Array<JobQuestion>;
  refused: Array<RefusedRow>;
};

/** A task that waits for a person, with the legal actions. */
export type InboxTask = {
  id: string;
  project: string;
  lifecycle: string;
  state: string;
  phase: string;
  ending: string | null;
  waits_for_person: boolean;
  assigned_to: string | null;
  state_at: string;
  intent: string;
  source: string;
  priority: string;
  title: string;
  payload: unknown;
  tags: Array<string>;
  root_id: string;
  parent_id: string | null;
  depth: number;
  jobs: number;
  job_id: string | null;
  depends_on: Array<string>;
  open_dependencies: number;
  failed_dependency: string | null;
  open_subtasks: number;
  subtasks: number;
  failed_subtask: string | null;
  settled: Array<string>;
  blocked_by: string | null;
  blocked_detail: Record<string, unknown>;
  retries_left: number | null;
  answered: Record<string, unknown> | null;
  rounds: number;
  comment: string | null;
  session_id: string | null;
  budget: number | null;
  spent: number;
  cancel_reason: string | null;
  error_class: string | null;
  acceptance: Acceptance | null;
  options: Record<string, unknown>;
  created_by: string;
  created_at: string;
  version: number;
  usage: Usage;
  elsewhere: Elsewhere;
  kind: string;
  snoozed_until: string | null;
  actions: Array<Suggestion>;
  events: Array<string>;
};

export type InstallLifecycleBody = {
  document: string | Record<string, unknown>;
  file?: string;
};

/** An installed lifecycle. `changed` is false if the same document was installed before. */
export type InstalledLifecycle = {
  id: string;
  name: string;
  version: number;
  changed: boolean;
  search: LifecycleSearch | null;
};

/** A job with its result or error. */
export type Job = {
  id: string;
  project: string;
  state: string;
  state_at: string;
  intent: string;
  priority: string;
  payload: unknown;
  root_id: string;
  task_id: string | null;
  parent_job_id: string | null;
  queued_at: string;
  not_before: string;
  attempt: number;
  failures: Record<string, number>;
  lost: number;
  fence: number;
  worker: string | null;
  runs: number;
  run_id: string | null;
  cancel_reason: string | null;
  plan_version: number;
  replans: number;
  concurrency_key: string | null;
  queue_deadline: string | null;
  job_deadline: string | null;
  options: Record<string, unknown>;
  result: unknown;
  error_class: string | null;
  error: string | null;
  created_at: string;
  ended_at: string | null;
  version: number;
};

export type JobPage = {
  items: Array<ListedJob>;
  cursor: string | null;
};

/** An open question of a job without a task, or of a run that keeps running (`permission`). `answer_job` takes its `name` as `question`. */
export type JobQuestion = {
  job_id: string;
  task_id: string | null;
  name: string;
  kind: string;
  begun_at: string;
  step: string | null;
  due_at: string | null;
  detail: Record<string, unknown>;
  project: string;
  intent: string;
  priority: string;
  state: string;
};

export type Jobs = {
  items: Array<Job>;
};

/** An intent, its kind, and where it is defined: configuration, worker. */
export type KnownIntent = {
  name: string;
  kind: string;
  origins: Array<string>;
  paused: boolean;
  workers: number;
  arguments: Record<string, unknown> | null;
};

export type KnownIntents = {
  items: Array<KnownIntent>;
};

/** A table of transitions. What follows `looks` is empty unless it is a lifecycle of tasks. */
export type Lifecycle = {
  id: string;
  kind: "job" | "run" | "step" | "task";
  name: string;
  version: number;
  shipped: boolean;
  title: string;
  states: Array<string>;
  initial: string;
  terminal: Array<string>;
  rows: Array<LifecycleRow>;
  meanings: Record<string, string>;
  looks: Record<string, string>;
  phases: Record<string, string>;
  endings: Record<string, string>;
  columns: Record<string, string>;
  waits_for_person: Array<string>;
  queues: Array<string>;
  rules: Array<LifecycleRule>;
  timers: Array<LifecycleTimer>;
  rounds: LifecycleRounds;
  default_for: Array<string>;
};

/** The document of a lifecycle of tasks, with the fields of its TOML file. */
export type LifecycleDocument = {
  id: string;
  document: Record<string, unknown>;
};

/** The events that count a round, and the number after which they are refused. */
export type LifecycleRounds = {
  events: Array<string>;
  limit: number | null;
};

export type LifecycleRow = {
  source: string | null;
  event: string;
  target: string;
  who: string;
  why: string;
  extension: boolean;
  reopens: boolean;
};

/** The events that a task gets after something happens to its job. `states` is empty if the rule applies in all states. The first rule that applies is followed. */
export type LifecycleRule = {
  when: string;
  states: Array<string>;
  given: Array<string>;
  then: Array<string>;
};

/** A search of the states that tasks can reach; `exhausted`: all of them were visited. */
export type LifecycleSearch = {
  states: number;
  max_states: number;
  depth: number;
  exhausted: boolean;
};

/** The event that a task gets after a time in a state. */
export type LifecycleTimer = {
  state: string;
  after_s: number;
  event: string;
};

/** The lifecycles, and by kind of state its appearance. */
export type Lifecycles = {
  lifecycles: Array<Lifecycle>;
  defaults: Record<string, string>;
  tasks: Record<string, number> | null;
  appearances: Record<string, Appearance>;
};

/** A pause, a concurrency limit (`running`), or a rate limit (`rate` in `per_s` seconds). Of a project also its weight and its quotas. */
export type Limit = {
  name: string;
  paused: boolean;
  running: number | null;
  rate: number | null;
  per_s: number | null;
  weight: number | null;
  submit_rate: number | null;
  submit_per_s: number | null;
  stored_bytes: number | null;
  cost_per_day_usd: number | null;
  in_file: boolean;
  paused_by: string | null;
  paused_at: string | null;
  paused_until: string | null;
  reason: string | null;
};

export type Limits = {
  items: Array<Limit>;
};

/** A job with the title of its task, which is empty if it has none. */
export type ListedJob = {
  id: string;
  project: string;
  state: string;
  state_at: string;
  intent: string;
  priority: string;
  payload: unknown;
  root_id: string;
  task_id: string | null;
  parent_job_id: string | null;
  queued_at: string;
  not_before: string;
  attempt: number;
  failures: Record<string, number>;
  lost: number;
  fence: number;
  worker: string | null;
  runs: number;
  run_id: string | null;
  cancel_reason: string | null;
  plan_version: number;
  replans: number;
  concurrency_key: string | null;
  queue_deadline: string | null;
  job_deadline: string | null;
  options: Record<string, unknown>;
  result: unknown;
  error_class: string | null;
  error: string | null;
  created_at: string;
  ended_at: string | null;
  version: number;
  title: string;
};

/** A run with its task and the title of the task, which is empty if there is none. */
export type ListedRun = {
  id: string;
  job_id: string;
  state: string;
  attempt: number;
  fence: number;
  worker: string;
  queued_at: string;
  step: string | null;
  started_at: string | null;
  ended_at: string | null;
  outcome: string | null;
  exit_code: number | null;
  error_class: string | null;
  error: string | null;
  session_id: string | null;
  cost: number;
  tokens_in: number;
  tokens_out: number;
  progress: number | null;
  note: string | null;
  reserved: number | null;
  reason: string | null;
  task_id: string | null;
  title: string;
};

/** Events in order; `cursor` is the position to continue after. */
export type Log = {
  events: Array<Event>;
  cursor: number;
};

/** The token of a person's command line. The response is the only copy. */
export type Login = {
  token: string;
  name: string;
  project: string | null;
  expires_at: string;
};

export type LoginBody = {
  code: string;
};

/** A single-use code that is exchanged for a session cookie. */
export type LoginCode = {
  code: string;
  expires_at: string;
};

/** A state and its equivalents in other protocols. `failed`: no retry is left. */
export type MappedState = {
  lifecycle: string;
  state: string;
  reason: string | null;
  failed: boolean;
  other: string | null;
  mcp: string;
  a2a: string;
};

export type Mapping = {
  items: Array<MappedState>;
};

export type MarkViewedBody = {
  diff: string;
  path: string;
  viewed?: boolean;
};

/** The caller, from the server's record of its token; a null project means all projects. `projects` are those in which the session of a person can continue, null for all together; a token has none. `version` is the release of detent that the gateway runs. */
export type Me = {
  name: string;
  scopes: Array<string>;
  project: string | null;
  projects: Array<string | null>;
  version: string;
};

export type MigrateLifecycleBody = {
  dry_run?: boolean;
  after?: string;
};

/** How many tasks continue under the newest version; `next` is null after the last ones. */
export type Migrated = {
  lifecycle: string;
  dry_run: boolean;
  migrated: number;
  stranded: Array<StrandedTask>;
  next: string | null;
};

/** The state of a task or job after an action. */
export type Moved = {
  id: string;
  state: string;
  version: number;
  outcome: unknown;
};

/** A new token. The secret is shown only here. */
export type NewToken = {
  token: string;
  name: string;
  scopes: Array<string>;
  project: string | null;
  expires_at: string | null;
};

/** A webhook; `key` is its signing key if the webhook is new, shown only here. */
export type NewWebhook = {
  name: string;
  url: string;
  shape: string;
  events: Array<string>;
  projects: Array<string>;
  intents: Array<string>;
  only: string | null;
  paused: boolean;
  position: number;
  pending: number;
  dead: number;
  delivered: number;
  delivered_at: string | null;
  failed_at: string | null;
  error: string | null;
  keys: number;
  created_at: string;
  key: string | null;
};

/** An intent that is offered to other agents. */
export type OfferedIntent = {
  name: string;
  description: string;
  arguments: Record<string, unknown>;
  tasks: string;
};

export type OfferedIntents = {
  items: Array<OfferedIntent>;
};

/** An open question of a task. `answer_task` takes its `name` as `question`. */
export type OpenQuestion = {
  key: string;
  name: string;
  text: string;
  options: Array<unknown>;
  other: boolean;
  asked_at: string;
  due_at: string | null;
};

/** What became of a task: its state, its progress, its questions, and its result or error. */
export type Outcome = {
  id: string;
  project: string;
  intent: string;
  state: string;
  blocked_by: string | null;
  root_id: string;
  payload: unknown;
  tags: Array<string>;
  created_by: string;
  created_at: string;
  state_at: string;
  ending: string | null;
  kept_until: string | null;
  progress: number | null;
  note: string | null;
  questions: Array<OpenQuestion>;
  result: unknown;
  error_class: string | null;
  error: string | null;
  evidence: Array<Evidence>;
  elsewhere: Elsewhere;
  version: number;
};

/** A part of the output of a run; `offset` is where the next part begins. */
export type Output = {
  run_id: string | null;
  text: string;
  offset: number;
  ended: boolean;
  times: Array<OutputTime>;
};

/** When the lines of a part of the output were begun, from this line on (counted from 0). */
export type OutputTime = {
  line: number;
  at: string;
};

/** The answer to a question; `outcome` is answered, default or expired. */
export type OwnAnswer = {
  question: string | null;
  answer: unknown;
  outcome: string;
  by: string;
  at: string;
};

/** Amounts in dollars. `left` is the smallest remaining budget of the task and the tasks above it; null: no limit. */
export type OwnBudget = {
  budget: number | null;
  spent: number;
  left: number | null;
};

/** The comment of a reviewer who rejected the work. It ended `round`; the first one is 1. */
export type OwnComment = {
  round: number;
  comment: string | null;
  by: string;
  at: string;
};

/** The open comments on the work of a run's task, oldest first. */
export type OwnComments = {
  diff: string | null;
  comments: Array<Comment>;
};

export type OwnEvidence = {
  run_id: string;
  file: string;
  kind: string;
  sha256: string;
  size: number;
};

export type OwnEvidenceBody = {
  name: string;
  text?: string | null;
  base64?: string | null;
};

export type OwnProgressBody = {
  progress?: number | null;
  note?: string | null;
};

/** The question is asked when the run succeeds; `next` says what to do now. */
export type OwnQuestion = {
  run_id: string;
  outcome: string;
  next: string;
};

export type OwnQuestionBody = {
  text: string;
  options?: Array<unknown>;
  other?: boolean;
  default?: unknown;
  expires_in_s?: number | null;
};

export type OwnReply = {
  run_id: string;
  comment_id: string;
  reply_id: string;
};

export type OwnReplyBody = {
  text: string;
  resolved?: boolean;
};

/** The confirmation of a report of the run. */
export type OwnReport = {
  run_id: string;
  outcome: string;
};

/** A run and its work. A job without a task has no title and no subtasks. `round` is the round that it works in; the first one is 1. */
export type OwnRun = {
  run_id: string;
  job_id: string;
  task_id: string | null;
  attempt: number;
  project: string;
  intent: string;
  priority: string;
  title: string;
  tags: Array<string>;
  payload: unknown;
  session_id: string | null;
  round: number;
  budget: OwnBudget;
  comments: Array<OwnComment>;
  answers: Array<OwnAnswer>;
  subtasks: Array<OwnSubtask>;
};

export type OwnSubtask = {
  id: string;
  intent: string;
  title: string;
  state: string;
};

export type OwnSubtaskBody = {
  intent: string;
  payload?: unknown;
  not_before?: string | null;
  title?: string;
  priority?: "P0" | "P1" | "P2" | "P3" | "high" | "normal" | "low";
  tags?: Array<string>;
  depends_on?: Array<string>;
  max_budget_usd?: number | null;
  idempotency_key?: string | null;
};

export type PauseBody = {
  intent?: string | null;
  project?: string | null;
  key?: string | null;
  for_s?: number | null;
  reason?: string | null;
};

/** What went wrong, for people and for programs; `code` does not change between versions. */
export type Problem = {
  type: string;
  title: string;
  status: number;
  detail: string;
  code: string;
  hint?: string;
  request_id: string;
  field?: string;
  given?: unknown;
  allowed?: Array<string>;
  legal?: Array<string>;
};

/** A project with its number of tasks and its weight among projects. */
export type Project = {
  name: string;
  tasks: number;
  weight: number;
};

/** A project with its tasks and jobs counted by state, its limits, and what it has used. */
export type ProjectCounts = {
  name: string;
  paused: boolean;
  tasks: Record<string, number>;
  jobs: Record<string, number>;
  limits: Limit;
  used: ProjectUsage;
};

/** What a project has used of its quotas; None where nothing is counted without a quota. */
export type ProjectUsage = {
  cost_today_usd: number;
  submissions: number | null;
  stored_bytes: number | null;
};

export type Projects = {
  items: Array<Project>;
};

/** What is known about a provider. `state`: available, limited, open, half_open, unhealthy. */
export type Provider = {
  service: string;
  personal: boolean;
  state: string;
  limited_until: string | null;
  reset_stated: boolean;
  breaker: Breaker;
  error: string | null;
  failed_at: string | null;
  today: ProviderUsage;
};

/** Runs that ended today (UTC), with their tokens and cost. */
export type ProviderUsage = {
  runs: number;
  rate_limits: number;
  tokens_in: number;
  tokens_out: number;
  cost_usd: number;
};

/** The ids of the comments and replies that were published. */
export type PublishedDrafts = {
  task_id: string;
  published: Array<string>;
  version: number;
};

export type PutResourceBody = {
  capabilities?: Array<string> | null;
  labels?: Record<string, string> | null;
  capacity?: number | null;
  healthy?: boolean | null;
  service?: string | null;
  personal?: boolean | null;
};

export type PutScheduleBody = {
  intent: string;
  cron?: string | null;
  timezone?: string;
  every_s?: number | null;
  overlap?: "allow" | "skip";
  missed?: "all" | "once" | "skip";
  lifecycle?: string | null;
  project?: string | null;
  priority?: "P0" | "P1" | "P2" | "P3" | "high" | "normal" | "low";
  payload?: unknown;
  options?: Record<string, unknown> | null;
  not_before?: string | null;
};

export type PutTaskWebhookBody = {
  url: string;
  base: string;
  token?: string | null;
  authorization?: string | null;
};

export type PutWebhookBody = {
  url: string;
  shape?: "cloudevents" | "slack";
  events?: Array<string>;
  projects?: Array<string>;
  intents?: Array<string>;
  only?: "people";
  paused?: boolean;
};

export type Queue = {
  queueLength: number;
  byPriority: Record<string, number>;
};

/** One reason why a task or job is not running, and when detent checks it again. */
export type Reason = {
  reason: string;
  cleared_by: string;
  how: string;
  looks_again: string;
  looks_again_at: string | null;
  detail: Record<string, unknown>;
  actions: Array<Suggestion>;
};

/** A refused submission from the table `intake`, with the reason. */
export type RefusedRow = {
  id: string;
  operation: string;
  project: string;
  intent: string;
  body: string;
  idempotency_key: string | null;
  refused_at: string;
  code: string;
  field: string | null;
  detail: string;
};

export type RefusedRows = {
  items: Array<RefusedRow>;
};

/** A task of a list that was refused. */
export type RefusedTask = {
  index: number;
  code: string;
  detail: string;
};

/** An id for which a bulk action was refused. */
export type RefusedWork = {
  id: string;
  code: string;
  detail: string;
};

export type RejectManyBody = {
  ids: Array<string>;
  comment?: string | null;
  run?: boolean;
  seen?: Record<string, number> | null;
};

export type RejectTaskBody = {
  comment?: string | null;
  run?: boolean;
  seen?: number | null;
  diff?: string | null;
};

/** The name of what was deleted. */
export type Removed = {
  name: string;
  removed: boolean;
};

/** The ids of all versions that were removed. */
export type RemovedLifecycle = {
  name: string;
  removed: Array<string>;
};

export type RemovedUser = {
  name: string;
  ended_sessions: number;
};

export type ReplayWebhookBody = {
  after?: number | null;
  dead?: boolean;
};

/** The position from which a webhook continues, and the number of retried dead deliveries. */
export type Replayed = {
  name: string;
  position: number;
  revived: number;
};

export type ReplyToCommentBody = {
  text: string;
};

export type RequestChangesBody = {
  comment?: string | null;
  diff?: string | null;
  seen?: number | null;
};

/** A resource, which steps hold while they run. A drained one is given to no further step. */
export type Resource = {
  id: string;
  capabilities: Array<string>;
  labels: Record<string, string>;
  capacity: number;
  healthy: boolean;
  drained: boolean;
  built_in: boolean;
  in_use: number;
  holders: Array<Holder>;
  provider: Provider | null;
};

export type Resources = {
  items: Array<Resource>;
};

export type ResumeBody = {
  intent?: string | null;
  project?: string | null;
  key?: string | null;
};

export type ResumeManyBody = {
  ids: Array<string>;
};

export type RetryManyBody = {
  ids: Array<string>;
};

export type RetryTaskBody = {
  payload?: unknown;
  max_budget_usd?: number | null;
};

/** What a reviewer needs: what was asked, what it cost, and the diff with its files. `rounds` is how often changes were requested: 0 in round 1. */
export type Review = {
  task_id: string;
  title: string;
  intent: string;
  state: string;
  version: number;
  lifecycle: string;
  asked: Asked;
  rounds: number;
  rounds_limit: number | null;
  cost_usd: number;
  tokens_in: number;
  tokens_out: number;
  duration_ms: number;
  tests: Array<Evidence>;
  test_counts: TestCounts;
  check: Check | null;
  result: unknown;
  diff: ReviewedDiff | null;
  earlier: Array<EarlierDiff>;
  viewed: Array<string>;
  open_comments: number;
};

/** What changed from an earlier diff to the one under review: of one file, or all files. `before` numbers lines of the earlier version of the file, `after` those of the present one. */
export type ReviewBetween = {
  since: string;
  diff: string;
  path: string | null;
  old_path: string | null;
  hunks: Array<ReviewHunk>;
  truncated: boolean;
  base_changed: boolean;
  files: Array<ChangedFile>;
};

/** The lines of a file of a diff. `truncated`: the diff or the response has not all of them. */
export type ReviewFile = {
  diff: string;
  path: string;
  old_path: string | null;
  hunks: Array<ReviewHunk>;
  truncated: boolean;
};

/** Consecutive lines of a file. */
export type ReviewHunk = {
  before_start: number;
  before_count: number;
  after_start: number;
  after_count: number;
  heading: string;
  lines: Array<ReviewLine>;
};

/** A line with its number on each side that has it. */
export type ReviewLine = {
  kind: "added" | "context" | "removed";
  text: string;
  before: number | null;
  after: number | null;
  no_newline: boolean;
};

/** The diff under review. */
export type ReviewedDiff = {
  sha256: string;
  run_id: string;
  size: number;
  at: string;
  download: string;
  too_large: boolean;
  files: Array<DiffFile>;
};

export type Revoked = {
  name: string;
  revoked: number;
};

export type RotateWebhookKeyBody = {
  overlap_s?: number;
};

/** One execution of a job or of a step. */
export type Run = {
  id: string;
  job_id: string;
  state: string;
  attempt: number;
  fence: number;
  worker: string;
  queued_at: string;
  step: string | null;
  started_at: string | null;
  ended_at: string | null;
  outcome: string | null;
  exit_code: number | null;
  error_class: string | null;
  error: string | null;
  session_id: string | null;
  cost: number;
  tokens_in: number;
  tokens_out: number;
  progress: number | null;
  note: string | null;
  reserved: number | null;
  reason: string | null;
};

export type RunCost = {
  id: string;
  job_id: string;
  state: string;
  outcome: string | null;
  started_at: string | null;
  ended_at: string | null;
  cost: number;
  tokens_in: number;
  tokens_out: number;
};

export type RunManyBody = {
  ids: Array<string>;
};

/** A page of runs. It may have fewer rows than `limit`; `cursor` is null on the last page. */
export type RunPage = {
  items: Array<ListedRun>;
  cursor: string | null;
};

export type Runs = {
  items: Array<Run>;
};

export type SaveDraftBody = {
  text: string;
  diff?: string | null;
  file?: string | null;
  side?: "before" | "after";
  start?: number;
  end?: number;
  reply_to?: string | null;
};

export type SavedDraft = {
  task_id: string;
  draft_id: string;
  outcome: string;
};

/** A schedule. It has exactly one of `cron` and `every_s`. */
export type Schedule = {
  name: string;
  intent: string;
  cron: string | null;
  timezone: string;
  every_s: number | null;
  overlap: string;
  missed: string;
  paused: boolean;
  lifecycle: string;
  project: string | null;
  priority: string;
  payload: unknown;
  options: Record<string, unknown>;
  not_before: string | null;
  anchor_at: string | null;
  next_at: string | null;
  last_at: string | null;
  last_task: string | null;
};

export type Schedules = {
  items: Array<Schedule>;
};

export type SendEventBody = {
  event: string;
  comment?: string | null;
  seen?: number | null;
  diff?: string | null;
};

export type SendEventToManyBody = {
  ids: Array<string>;
  event: string;
  comment?: string | null;
  seen?: Record<string, number> | null;
};

/** The intervals of the window, oldest first. `partial`: older runs were not read. */
export type Series = {
  span_s: number;
  spans: Array<Span>;
  thresholds: Array<Threshold>;
  partial: boolean;
};

/** A browser session; `token` is the name of the token that it belongs to. `current` is true for the session that makes the request. */
export type Session = {
  id: string;
  token: string;
  project: string | null;
  created_at: string;
  expires_at: string;
  current: boolean;
};

export type Sessions = {
  items: Array<Session>;
};

export type SetProjectQuotaBody = {
  weight?: number | null;
  running?: number | null;
  rate?: number | null;
  per_s?: number | null;
  submit_rate?: number | null;
  submit_per_s?: number | null;
  stored_bytes?: number | null;
  cost_per_day_usd?: number | null;
  clear?: Array<string>;
};

export type SetStateBody = {
  value?: unknown;
};

export type SetTaskStateBody = {
  state: string;
  reason?: string;
};

/** How people can sign in: `oidc` is the label of the provider, or null if there is none. */
export type SignInMethods = {
  oidc: string | null;
};

export type SignalJobBody = {
  name: string;
  value?: unknown;
};

export type SignalTaskBody = {
  name: string;
  value?: unknown;
};

/** `outcome` is `delivered`, `kept` for a wait that has not begun, or `repeated`. */
export type Signalled = {
  id: string;
  outcome: string;
};

export type SnoozeTaskBody = {
  until?: string | null;
};

/** A task, and when it comes back to the caller's inbox; null if it is not snoozed. */
export type Snoozed = {
  id: string;
  snoozed_until: string | null;
};

/** One interval of the window, with the runs that ended in it. */
export type Span = {
  start: string;
  succeeded: number;
  failed: number;
  timed_out: number;
  cancelled: number;
  success_rate: number | null;
  p50_s: number | null;
  p95_s: number | null;
  queue_p50_s: number | null;
  queue_p95_s: number | null;
  cost: number;
};

/** The total cost of some runs. */
export type Spending = {
  runs: number;
  cost: number;
  tokens_in: number;
  tokens_out: number;
};

/** The rows of `system_state` by name. */
export type StateValues = {
  values: Record<string, unknown>;
};

/** Statistics over a window. `partial`: there were more runs than were read. */
export type Stats = {
  hours: number;
  ended: number;
  per_hour: number;
  by_state: Record<string, number>;
  success_rate: number | null;
  durations: Durations;
  cost_per_day: Array<DayCost>;
  queued: number;
  oldest_queued_s: number | null;
  looked_at: number;
  partial: boolean;
};

/** A step of a plan. */
export type Step = {
  job_id: string;
  plan_version: number;
  name: string;
  state: string;
  state_at: string;
  retries: number;
  lost: number;
  not_before: string;
  run_id: string | null;
  resource: string | null;
  last_resource: string | null;
  held_until: string | null;
  avoid: Array<string>;
  wait: string | null;
  reason: string | null;
  result: unknown;
  error_class: string | null;
  error: string | null;
};

export type Steps = {
  items: Array<Step>;
};

/** A task whose state the newest version has not, and which stays on its version. */
export type StrandedTask = {
  id: string;
  state: string;
  lifecycle: string;
};

export type SubmitJobBody = {
  intent: string;
  payload?: unknown;
  not_before?: string | null;
  id?: string | null;
  project?: string | null;
  priority?: "P0" | "P1" | "P2" | "P3" | "high" | "normal" | "low";
  concurrency_key?: string | null;
  options?: Record<string, unknown> | null;
  idempotency_key?: string | null;
};

export type SubmitTaskBody = {
  intent: string;
  payload?: unknown;
  not_before?: string | null;
  id?: string | null;
  project?: string | null;
  lifecycle?: string | null;
  source?: string;
  title?: string;
  priority?: "P0" | "P1" | "P2" | "P3" | "high" | "normal" | "low";
  tags?: Array<string>;
  depends_on?: Array<string>;
  parent_id?: string | null;
  max_budget_usd?: number | null;
  options?: Record<string, unknown> | null;
  run?: boolean;
  idempotency_key?: string | null;
};

/** The id. `repeated`: an earlier submission with this idempotency key created it. */
export type Submitted = {
  id: string;
  repeated: boolean;
};

/** The ids of the created tasks, in order, and the refused tasks with their reasons. */
export type SubmittedMany = {
  ids: Array<string>;
  refused: Array<RefusedTask>;
};

/** A legal action, the task that it applies to, and the command for it. */
export type Suggestion = {
  action: string;
  id: string;
  command: string;
};

export type SwitchProjectBody = {
  project?: string | null;
};

/** A task with its payload and state. */
export type Task = {
  id: string;
  project: string;
  lifecycle: string;
  state: string;
  phase: string;
  ending: string | null;
  waits_for_person: boolean;
  assigned_to: string | null;
  state_at: string;
  intent: string;
  source: string;
  priority: string;
  title: string;
  payload: unknown;
  tags: Array<string>;
  root_id: string;
  parent_id: string | null;
  depth: number;
  jobs: number;
  job_id: string | null;
  depends_on: Array<string>;
  open_dependencies: number;
  failed_dependency: string | null;
  open_subtasks: number;
  subtasks: number;
  failed_subtask: string | null;
  settled: Array<string>;
  blocked_by: string | null;
  blocked_detail: Record<string, unknown>;
  retries_left: number | null;
  answered: Record<string, unknown> | null;
  rounds: number;
  comment: string | null;
  session_id: string | null;
  budget: number | null;
  spent: number;
  cancel_reason: string | null;
  error_class: string | null;
  acceptance: Acceptance | null;
  options: Record<string, unknown>;
  created_by: string;
  created_at: string;
  version: number;
  usage: Usage;
  elsewhere: Elsewhere;
};

/** A task of the tree with the cost of the task and everything below it. */
export type TaskCost = {
  id: string;
  parent_id: string | null;
  intent: string;
  state: string;
  budget: number | null;
  runs: number;
  cost: number;
  tokens_in: number;
  tokens_out: number;
};

/** A page of tasks. `cursor` is null on the last page. */
export type TaskPage = {
  items: Array<Task>;
  cursor: string | null;
};

/** A task and its jobs at an earlier time; `position` and `at` are those of the last event. */
export type TaskThen = {
  position: number;
  at: string;
  task: Record<string, unknown>;
  jobs: Array<Record<string, unknown>>;
};

/** A webhook of one task, without its secrets. */
export type TaskWebhook = {
  name: string;
  task_id: string;
  url: string;
};

export type TaskWebhooks = {
  items: Array<TaskWebhook>;
};

export type Tasks = {
  items: Array<Task>;
};

/** Counts in the newest test-results.json of the last round; null if it has none. */
export type TestCounts = {
  passed: number | null;
  failed: number | null;
};

/** The limit of a figure for ok, and for degraded. */
export type Threshold = {
  figure: string;
  ok: number;
  degraded: number | null;
};

/** The next times of a schedule. */
export type Times = {
  name: string;
  times: Array<string>;
};

/** A token without its secret. */
export type Token = {
  name: string;
  scopes: Array<string>;
  project: string | null;
  created_at: string;
  expires_at: string | null;
};

export type Tokens = {
  items: Array<Token>;
};

/** Items of a transcript in order. `next` is the `after` of the next page, and null if the run has ended and this is the last page. While the run works, ask again with `next`. */
export type Transcript = {
  items: Array<TranscriptItem>;
  next: number | null;
  ended: boolean;
};

/** One item of a transcript. Texts are cut after 65,536 characters. A result has the `tool_id` of its call. `diff` is a unified diff whose line numbers count from the first line of the edit. `raw_line` is the line of the output that the item comes from. */
export type TranscriptItem = {
  number: number;
  at: string | null;
  kind: "cost" | "edit" | "error" | "message" | "note" | "session" | "text" | "thinking" | "tool_call" | "tool_result";
  role: string | null;
  text: string | null;
  tool: string | null;
  tool_id: string | null;
  input: string | null;
  output: string | null;
  is_error: boolean;
  path: string | null;
  diff: string | null;
  cost_usd: number | null;
  tokens_in: number | null;
  tokens_out: number | null;
  turn: number | null;
  raw_line: number;
};

/** A test delivery; it is deleted from the deliveries after it has succeeded. */
export type TriedWebhook = {
  name: string;
  id: string;
};

/** The task that a schedule submitted when it was triggered. */
export type Triggered = {
  name: string;
  task_id: string;
};

/** The cost of the task's own runs and of its tree; `warned`: most of its budget is spent. */
export type Usage = {
  own: Spending;
  tree: Spending;
  warned: boolean;
};

/** A person who has signed in through the provider, with the roles that the settings give. */
export type User = {
  name: string;
  groups: Array<string>;
  roles: Array<string>;
  sessions: number;
  created_at: string;
  signed_in_at: string;
};

export type Users = {
  items: Array<User>;
};

/** One variant: how it ended, and what its work cost and left. */
export type Variant = {
  number: number;
  task_id: string;
  intent: string;
  state: string;
  error: string | null;
  live: boolean;
  choosable: boolean;
  chosen: boolean;
  passes: boolean | null;
  diff: VariantDiff | null;
  tests: VariantTests;
  check: VariantCheck | null;
  cost_usd: number;
  tokens_in: number;
  tokens_out: number;
  duration_ms: number;
};

/** The check of a variant by its checker; `accept` is null until it has ended. */
export type VariantCheck = {
  task_id: string;
  checker: string;
  state: string;
  accept: boolean | null;
  cost_usd: number;
};

/** The diff of a variant: its SHA-256, the run that left it, and its size. */
export type VariantDiff = {
  sha256: string;
  run_id: string;
  size: number;
  files: number | null;
  added: number | null;
  removed: number | null;
};

/** The test results of a variant; the counts are null if no evidence has them. */
export type VariantTests = {
  evidence: Array<Evidence>;
  passed: number | null;
  failed: number | null;
};

/** The variants of a task, by number, and which of them was chosen. */
export type Variants = {
  task_id: string;
  title: string;
  state: string;
  lifecycle: string;
  version: number;
  wanted: number;
  choose: "cheapest_passing" | "first_passing" | "person";
  chosen: number | null;
  waits_for_choice: boolean;
  budget_usd: number | null;
  cost_usd: number;
  variants: Array<Variant>;
};

/** The files of the diff that the caller has viewed. */
export type Viewed = {
  diff: string;
  viewed: Array<string>;
};

/** A webhook with its filters and delivery status, without its keys. */
export type Webhook = {
  name: string;
  url: string;
  shape: string;
  events: Array<string>;
  projects: Array<string>;
  intents: Array<string>;
  only: string | null;
  paused: boolean;
  position: number;
  pending: number;
  dead: number;
  delivered: number;
  delivered_at: string | null;
  failed_at: string | null;
  error: string | null;
  keys: number;
  created_at: string;
};

/** A new signing key, shown only here; the old keys sign as well until `old_until`. */
export type WebhookKey = {
  name: string;
  key: string;
  old_until: string;
};

export type Webhooks = {
  items: Array<Webhook>;
};

/** The reasons why a task or job is not running, and the legal actions. */
export type Why = {
  id: string;
  state: string;
  since: string;
  reasons: Array<Reason>;
  actions: Array<string>;
  events: Array<string>;
};

/** A worker: its intents, the jobs that it holds, and the time of its last heartbeat. */
export type Worker = {
  name: string;
  host: string | null;
  pid: number | null;
  seen_at: string | null;
  alive: boolean;
  draining: boolean;
  concurrency: number | null;
  slots: number | null;
  intents: Array<string>;
  running: Array<Held>;
};

export type Workers = {
  items: Array<Worker>;
};

/** By operation: what it takes and what it answers. */
export interface Operations {
  accept_many: { takes: object & (AcceptManyBody); answers: ActedOn };
  accept_task: { takes: { task_id: string } & (AcceptTaskBody); answers: Moved };
  add: { takes: object & (AddBody); answers: Added };
  add_comment: { takes: { task_id: string } & (AddCommentBody); answers: Commented };
  answer_job: { takes: { job_id: string } & (AnswerJobBody); answers: Moved };
  answer_task: { takes: { task_id: string } & (AnswerTaskBody); answers: Moved };
  assign_task: { takes: { task_id: string } & (AssignTaskBody); answers: Moved };
  begin_run: { takes: { job_id: string } & (BeginRunBody); answers: BegunRun };
  cancel_job: { takes: { job_id: string } & (CancelJobBody); answers: Moved };
  cancel_many: { takes: object & (CancelManyBody); answers: ActedOn };
  cancel_task: { takes: { task_id: string } & (CancelTaskBody); answers: Moved };
  choose_variant: { takes: { task_id: string } & (ChooseVariantBody); answers: Moved };
  counts: { takes: { project?: string }; answers: Counts };
  create_login_code: { takes: object; answers: LoginCode };
  create_project: { takes: object & (CreateProjectBody); answers: Project };
  create_token: { takes: object & (CreateTokenBody); answers: NewToken };
  delete_draft: { takes: { task_id: string; draft_id: string }; answers: SavedDraft };
  delete_job: { takes: { job_id: string }; answers: Deleted };
  delete_many: { takes: object & (DeleteManyBody); answers: ActedOn };
  delete_resource: { takes: { name: string }; answers: Removed };
  delete_schedule: { takes: { name: string }; answers: Removed };
  delete_task: { takes: { task_id: string }; answers: Deleted };
  delete_task_webhook: { takes: { task_id: string; name: string }; answers: Removed };
  delete_webhook: { takes: { name: string }; answers: Removed };
  dismiss_many: { takes: object & (DismissManyBody); answers: ActedOn };
  dismiss_task: { takes: { task_id: string } & (DismissTaskBody); answers: Moved };
  drain_resource: { takes: { name: string }; answers: Resource };
  drain_worker: { takes: { name: string }; answers: Drained };
  drop_refused: { takes: { intake_id: string }; answers: Deleted };
  edit_task: { takes: { task_id: string } & (EditTaskBody); answers: Moved };
  end_run: { takes: { run_id: string } & (EndRunBody); answers: Run };
  end_session: { takes: { session_id: string }; answers: EndedSession };
  enqueue: { takes: object & (EnqueueBody); answers: Added };
  find_ids: { takes: { part: string; kind?: "task" | "job" | "run" }; answers: Ids };
  fork_job: { takes: { job_id: string } & (ForkJobBody); answers: Forked };
  health: { takes: object; answers: Health };
  inbox: { takes: { project?: string; kind?: string; intent?: string; assigned_to?: string; mine?: boolean; unassigned?: boolean; snoozed?: boolean; item?: string }; answers: Inbox };
  install_lifecycle: { takes: object & (InstallLifecycleBody); answers: InstalledLifecycle };
  job_events: { takes: { job_id: string; after?: number }; answers: Log };
  job_evidence: { takes: { job_id: string }; answers: EvidenceList };
  job_logs: { takes: { job_id: string; offset?: number }; answers: Output };
  job_runs: { takes: { job_id: string }; answers: Runs };
  job_steps: { takes: { job_id: string }; answers: Steps };
  job_why: { takes: { job_id: string }; answers: Why };
  lifecycle_diagram: { takes: { name: string }; answers: Diagram };
  list_deliveries: { takes: { name: string; limit?: number }; answers: Deliveries };
  list_events: { takes: { after?: number; limit?: number }; answers: Log };
  list_intents: { takes: object; answers: KnownIntents };
  list_jobs: { takes: { state?: string; project?: string; intent?: string; task_id?: string; search?: string; sort?: "created_at" | "-created_at" | "state_at" | "-state_at" | "rank" | "-rank" | "id" | "-id"; cursor?: string; limit?: number }; answers: JobPage };
  list_lifecycles: { takes: { counts?: boolean }; answers: Lifecycles };
  list_limits: { takes: { position?: number; time?: string }; answers: Limits };
  list_offered_intents: { takes: object; answers: OfferedIntents };
  list_projects: { takes: object; answers: Projects };
  list_refused: { takes: object; answers: RefusedRows };
  list_resources: { takes: object; answers: Resources };
  list_runs: { takes: { state?: string; worker?: string; job_id?: string; search?: string; sort?: "queued_at" | "-queued_at" | "started_at" | "-started_at" | "ended_at" | "-ended_at" | "id" | "-id"; cursor?: string; limit?: number }; answers: RunPage };
  list_schedules: { takes: object; answers: Schedules };
  list_sessions: { takes: object; answers: Sessions };
  list_task_webhooks: { takes: { task_id: string }; answers: TaskWebhooks };
  list_tasks: { takes: { state?: string; lifecycle?: string; project?: string; intent?: string; source?: string; priority?: "P0" | "P1" | "P2" | "P3" | "high" | "normal" | "low"; tag?: string; parent_id?: string; active?: boolean; own?: boolean; search?: string; sort?: "created_at" | "-created_at" | "state_at" | "-state_at" | "priority" | "-priority" | "id" | "-id"; cursor?: string; limit?: number }; answers: TaskPage };
  list_tokens: { takes: object; answers: Tokens };
  list_users: { takes: object; answers: Users };
  list_webhooks: { takes: object; answers: Webhooks };
  list_workers: { takes: object; answers: Workers };
  mark_viewed: { takes: { task_id: string } & (MarkViewedBody); answers: Viewed };
  migrate_lifecycle: { takes: { name: string } & (MigrateLifecycleBody); answers: Migrated };
  next_times: { takes: { name: string; count?: number }; answers: Times };
  own_comments: { takes: object; answers: OwnComments };
  own_evidence: { takes: object & (OwnEvidenceBody); answers: OwnEvidence };
  own_progress: { takes: object & (OwnProgressBody); answers: OwnReport };
  own_question: { takes: object & (OwnQuestionBody); answers: OwnQuestion };
  own_reply: { takes: { comment_id: string } & (OwnReplyBody); answers: OwnReply };
  own_run: { takes: object; answers: OwnRun };
  own_subtask: { takes: object & (OwnSubtaskBody); answers: Submitted };
  pause: { takes: object & (PauseBody); answers: Limit };
  pause_schedule: { takes: { name: string }; answers: Schedule };
  publish_drafts: { takes: { task_id: string }; answers: PublishedDrafts };
  put_resource: { takes: { name: string } & (PutResourceBody); answers: Resource };
  put_schedule: { takes: { name: string } & (PutScheduleBody); answers: Schedule };
  put_task_webhook: { takes: { task_id: string; name: string } & (PutTaskWebhookBody); answers: TaskWebhook };
  put_webhook: { takes: { name: string } & (PutWebhookBody); answers: NewWebhook };
  reject_many: { takes: object & (RejectManyBody); answers: ActedOn };
  reject_task: { takes: { task_id: string } & (RejectTaskBody); answers: Moved };
  remove_lifecycle: { takes: { name: string }; answers: RemovedLifecycle };
  remove_user: { takes: { name: string }; answers: RemovedUser };
  reopen_comment: { takes: { task_id: string; comment_id: string }; answers: Commented };
  replay_webhook: { takes: { name: string } & (ReplayWebhookBody); answers: Replayed };
  reply_to_comment: { takes: { task_id: string; comment_id: string } & (ReplyToCommentBody); answers: Commented };
  request_changes: { takes: { task_id: string } & (RequestChangesBody); answers: Moved };
  reset_resource: { takes: { name: string }; answers: Resource };
  resolve_comment: { takes: { task_id: string; comment_id: string }; answers: Commented };
  resume: { takes: object & (ResumeBody); answers: Limit };
  resume_many: { takes: object & (ResumeManyBody); answers: ActedOn };
  resume_schedule: { takes: { name: string }; answers: Schedule };
  resume_task: { takes: { task_id: string }; answers: Moved };
  retry_job: { takes: { job_id: string }; answers: Moved };
  retry_many: { takes: object & (RetryManyBody); answers: ActedOn };
  retry_task: { takes: { task_id: string } & (RetryTaskBody); answers: Moved };
  review: { takes: { task_id: string }; answers: Review };
  review_between: { takes: { task_id: string; since: string; path?: string }; answers: ReviewBetween };
  review_file: { takes: { task_id: string; path: string; diff?: string }; answers: ReviewFile };
  revoke_token: { takes: { name: string }; answers: Revoked };
  rotate_webhook_key: { takes: { name: string } & (RotateWebhookKeyBody); answers: WebhookKey };
  run_evidence: { takes: { run_id: string }; answers: EvidenceList };
  run_many: { takes: object & (RunManyBody); answers: ActedOn };
  run_output: { takes: { run_id: string; offset?: number }; answers: Output };
  run_task: { takes: { task_id: string }; answers: Moved };
  run_transcript: { takes: { run_id: string; after?: number; limit?: number; q?: string }; answers: Transcript };
  save_draft: { takes: { task_id: string; draft_id: string } & (SaveDraftBody); answers: SavedDraft };
  send_event: { takes: { task_id: string } & (SendEventBody); answers: Moved };
  send_event_to_many: { takes: object & (SendEventToManyBody); answers: ActedOn };
  set_project_quota: { takes: { name: string } & (SetProjectQuotaBody); answers: Limit };
  set_state: { takes: { name: string } & (SetStateBody); answers: StateValues };
  set_task_state: { takes: { task_id: string } & (SetTaskStateBody); answers: Moved };
  show_job: { takes: { job_id: string }; answers: Job };
  show_lifecycle: { takes: { name: string }; answers: Lifecycle };
  show_lifecycle_document: { takes: { name: string }; answers: LifecycleDocument };
  show_me: { takes: object; answers: Me };
  show_project: { takes: { name: string }; answers: ProjectCounts };
  show_run: { takes: { run_id: string }; answers: ListedRun };
  show_state: { takes: object; answers: StateValues };
  show_task: { takes: { task_id: string }; answers: Task };
  signal_job: { takes: { job_id: string } & (SignalJobBody); answers: Moved };
  signal_task: { takes: { task_id: string } & (SignalTaskBody); answers: Signalled };
  snooze_task: { takes: { task_id: string } & (SnoozeTaskBody); answers: Snoozed };
  state_mapping: { takes: object; answers: Mapping };
  stats: { takes: { hours?: number; project?: string }; answers: Stats };
  stats_series: { takes: { hours?: number; project?: string }; answers: Series };
  status: { takes: { project?: string }; answers: Queue };
  submit_job: { takes: object & (SubmitJobBody); answers: Submitted };
  submit_task: { takes: object & (SubmitTaskBody); answers: Submitted };
  submit_tasks: { takes: object & (Array<SubmitTaskBody>); answers: SubmittedMany };
  subtasks: { takes: { task_id: string }; answers: Tasks };
  switch_project: { takes: object & (SwitchProjectBody); answers: Me };
  task_at: { takes: { task_id: string; position?: number; time?: string }; answers: TaskThen };
  task_comments: { takes: { task_id: string; diff?: string }; answers: Comments };
  task_costs: { takes: { task_id: string }; answers: Costs };
  task_events: { takes: { task_id: string; after?: number }; answers: Log };
  task_evidence: { takes: { task_id: string }; answers: EvidenceList };
  task_jobs: { takes: { task_id: string }; answers: Jobs };
  task_logs: { takes: { task_id: string; offset?: number }; answers: Output };
  task_outcome: { takes: { task_id: string; own?: boolean }; answers: Outcome };
  task_runs: { takes: { task_id: string }; answers: Runs };
  task_steps: { takes: { task_id: string }; answers: Steps };
  trigger_schedule: { takes: { name: string }; answers: Triggered };
  try_webhook: { takes: { name: string }; answers: TriedWebhook };
  undrain_resource: { takes: { name: string }; answers: Resource };
  undrain_worker: { takes: { name: string }; answers: Drained };
  variants: { takes: { task_id: string }; answers: Variants };
  why: { takes: { task_id: string }; answers: Why };
}

/** By operation: its method and its path. */
export const ROUTES: Record<keyof Operations, readonly [string, string]> = {
  accept_many: ["POST", "/api/many/accept"],
  accept_task: ["POST", "/api/tasks/{task_id}/accept"],
  add: ["POST", "/add"],
  add_comment: ["POST", "/api/tasks/{task_id}/comments"],
  answer_job: ["POST", "/api/jobs/{job_id}/answer"],
  answer_task: ["POST", "/api/tasks/{task_id}/answer"],
  assign_task: ["POST", "/api/tasks/{task_id}/assign"],
  begin_run: ["POST", "/api/jobs/{job_id}/runs"],
  cancel_job: ["POST", "/api/jobs/{job_id}/cancel"],
  cancel_many: ["POST", "/api/many/cancel"],
  cancel_task: ["POST", "/api/tasks/{task_id}/cancel"],
  choose_variant: ["POST", "/api/tasks/{task_id}/choose"],
  counts: ["GET", "/api/counts"],
  create_login_code: ["POST", "/api/login/codes"],
  create_project: ["POST", "/api/projects"],
  create_token: ["POST", "/api/tokens"],
  delete_draft: ["DELETE", "/api/tasks/{task_id}/drafts/{draft_id}"],
  delete_job: ["DELETE", "/api/jobs/{job_id}"],
  delete_many: ["POST", "/api/many/delete"],
  delete_resource: ["DELETE", "/api/resources/{name}"],
  delete_schedule: ["DELETE", "/api/schedules/{name}"],
  delete_task: ["DELETE", "/api/tasks/{task_id}"],
  delete_task_webhook: ["DELETE", "/api/tasks/{task_id}/webhooks/{name}"],
  delete_webhook: ["DELETE", "/api/webhooks/{name}"],
  dismiss_many: ["POST", "/api/many/dismiss"],
  dismiss_task: ["POST", "/api/tasks/{task_id}/dismiss"],
  drain_resource: ["POST", "/api/resources/{name}/drain"],
  drain_worker: ["POST", "/api/workers/{name}/drain"],
  drop_refused: ["DELETE", "/api/intake/{intake_id}"],
  edit_task: ["PATCH", "/api/tasks/{task_id}"],
  end_run: ["POST", "/api/runs/{run_id}/end"],
  end_session: ["DELETE", "/api/sessions/{session_id}"],
  enqueue: ["POST", "/enqueue"],
  find_ids: ["GET", "/api/ids/{part}"],
  fork_job: ["POST", "/api/jobs/{job_id}/fork"],
  health: ["GET", "/api/health"],
  inbox: ["GET", "/api/inbox"],
  install_lifecycle: ["POST", "/api/lifecycles"],
  job_events: ["GET", "/api/jobs/{job_id}/events"],
  job_evidence: ["GET", "/api/jobs/{job_id}/evidence"],
  job_logs: ["GET", "/api/jobs/{job_id}/logs"],
  job_runs: ["GET", "/api/jobs/{job_id}/runs"],
  job_steps: ["GET", "/api/jobs/{job_id}/steps"],
  job_why: ["GET", "/api/jobs/{job_id}/why"],
  lifecycle_diagram: ["GET", "/api/lifecycles/{name}/diagram"],
  list_deliveries: ["GET", "/api/webhooks/{name}/deliveries"],
  list_events: ["GET", "/api/log"],
  list_intents: ["GET", "/api/intents"],
  list_jobs: ["GET", "/api/jobs"],
  list_lifecycles: ["GET", "/api/lifecycles"],
  list_limits: ["GET", "/api/limits"],
  list_offered_intents: ["GET", "/api/offered-intents"],
  list_projects: ["GET", "/api/projects"],
  list_refused: ["GET", "/api/intake"],
  list_resources: ["GET", "/api/resources"],
  list_runs: ["GET", "/api/runs"],
  list_schedules: ["GET", "/api/schedules"],
  list_sessions: ["GET", "/api/sessions"],
  list_task_webhooks: ["GET", "/api/tasks/{task_id}/webhooks"],
  list_tasks: ["GET", "/api/tasks"],
  list_tokens: ["GET", "/api/tokens"],
  list_users: ["GET", "/api/users"],
  list_webhooks: ["GET", "/api/webhooks"],
  list_workers: ["GET", "/api/workers"],
  mark_viewed: ["PUT", "/api/tasks/{task_id}/review/viewed"],
  migrate_lifecycle: ["POST", "/api/lifecycles/{name}/migrate"],
  next_times: ["GET", "/api/schedules/{name}/next"],
  own_comments: ["GET", "/api/run/comments"],
  own_evidence: ["POST", "/api/run/evidence"],
  own_progress: ["POST", "/api/run/progress"],
  own_question: ["POST", "/api/run/ask"],
  own_reply: ["POST", "/api/run/comments/{comment_id}/replies"],
  own_run: ["GET", "/api/run"],
  own_subtask: ["POST", "/api/run/subtasks"],
  pause: ["POST", "/api/pause"],
  pause_schedule: ["POST", "/api/schedules/{name}/pause"],
  publish_drafts: ["POST", "/api/tasks/{task_id}/publish-drafts"],
  put_resource: ["PUT", "/api/resources/{name}"],
  put_schedule: ["PUT", "/api/schedules/{name}"],
  put_task_webhook: ["PUT", "/api/tasks/{task_id}/webhooks/{name}"],
  put_webhook: ["PUT", "/api/webhooks/{name}"],
  reject_many: ["POST", "/api/many/reject"],
  reject_task: ["POST", "/api/tasks/{task_id}/reject"],
  remove_lifecycle: ["DELETE", "/api/lifecycles/{name}"],
  remove_user: ["DELETE", "/api/users/{name}"],
  reopen_comment: ["POST", "/api/tasks/{task_id}/comments/{comment_id}/reopen"],
  replay_webhook: ["POST", "/api/webhooks/{name}/replay"],
  reply_to_comment: ["POST", "/api/tasks/{task_id}/comments/{comment_id}/replies"],
  request_changes: ["POST", "/api/tasks/{task_id}/request-changes"],
  reset_resource: ["POST", "/api/resources/{name}/reset"],
  resolve_comment: ["POST", "/api/tasks/{task_id}/comments/{comment_id}/resolve"],
  resume: ["POST", "/api/resume"],
  resume_many: ["POST", "/api/many/resume"],
  resume_schedule: ["POST", "/api/schedules/{name}/resume"],
  resume_task: ["POST", "/api/tasks/{task_id}/resume"],
  retry_job: ["POST", "/api/jobs/{job_id}/retry"],
  retry_many: ["POST", "/api/many/retry"],
  retry_task: ["POST", "/api/tasks/{task_id}/retry"],
  review: ["GET", "/api/tasks/{task_id}/review"],
  review_between: ["GET", "/api/tasks/{task_id}/review/between"],
  review_file: ["GET", "/api/tasks/{task_id}/review/file"],
  revoke_token: ["DELETE", "/api/tokens/{name}"],
  rotate_webhook_key: ["POST", "/api/webhooks/{name}/rotate"],
  run_evidence: ["GET", "/api/runs/{run_id}/evidence"],
  run_many: ["POST", "/api/many/run"],
  run_output: ["GET", "/api/runs/{run_id}/output"],
  run_task: ["POST", "/api/tasks/{task_id}/run"],
  run_transcript: ["GET", "/api/runs/{run_id}/transcript"],
  save_draft: ["PUT", "/api/tasks/{task_id}/drafts/{draft_id}"],
  send_event: ["POST", "/api/tasks/{task_id}/events"],
  send_event_to_many: ["POST", "/api/many/events"],
  set_project_quota: ["POST", "/api/projects/{name}/quota"],
  set_state: ["PUT", "/api/state/{name}"],
  set_task_state: ["POST", "/api/tasks/{task_id}/state"],
  show_job: ["GET", "/api/jobs/{job_id}"],
  show_lifecycle: ["GET", "/api/lifecycles/{name}"],
  show_lifecycle_document: ["GET", "/api/lifecycles/{name}/document"],
  show_me: ["GET", "/api/me"],
  show_project: ["GET", "/api/projects/{name}"],
  show_run: ["GET", "/api/runs/{run_id}"],
  show_state: ["GET", "/api/state"],
  show_task: ["GET", "/api/tasks/{task_id}"],
  signal_job: ["POST", "/api/jobs/{job_id}/signal"],
  signal_task: ["POST", "/api/tasks/{task_id}/signal"],
  snooze_task: ["POST", "/api/tasks/{task_id}/snooze"],
  state_mapping: ["GET", "/api/mapping"],
  stats: ["GET", "/api/stats"],
  stats_series: ["GET", "/api/stats/series"],
  status: ["GET", "/status"],
  submit_job: ["POST", "/api/jobs"],
  submit_task: ["POST", "/api/tasks"],
  submit_tasks: ["POST", "/api/bulk"],
  subtasks: ["GET", "/api/tasks/{task_id}/subtasks"],
  switch_project: ["POST", "/api/me/project"],
  task_at: ["GET", "/api/tasks/{task_id}/at"],
  task_comments: ["GET", "/api/tasks/{task_id}/comments"],
  task_costs: ["GET", "/api/tasks/{task_id}/costs"],
  task_events: ["GET", "/api/tasks/{task_id}/events"],
  task_evidence: ["GET", "/api/tasks/{task_id}/evidence"],
  task_jobs: ["GET", "/api/tasks/{task_id}/jobs"],
  task_logs: ["GET", "/api/tasks/{task_id}/logs"],
  task_outcome: ["GET", "/api/tasks/{task_id}/outcome"],
  task_runs: ["GET", "/api/tasks/{task_id}/runs"],
  task_steps: ["GET", "/api/tasks/{task_id}/steps"],
  trigger_schedule: ["POST", "/api/schedules/{name}/trigger"],
  try_webhook: ["POST", "/api/webhooks/{name}/test"],
  undrain_resource: ["POST", "/api/resources/{name}/undrain"],
  undrain_worker: ["POST", "/api/workers/{name}/undrain"],
  variants: ["GET", "/api/tasks/{task_id}/variants"],
  why: ["GET", "/api/tasks/{task_id}/why"],
};
