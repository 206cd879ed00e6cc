\* ---------------------------------------------------------------------------------------------
\* From here on the text is the same for every lifecycle: how detent runs a task of it.
\*
\* One step is one command of detent, with everything that follows from it in its transaction.
\* Names in small letters are the events of the document; people send them. Names with a capital
\* letter are what a worker or the keeper does.
\* ---------------------------------------------------------------------------------------------

\* By task: where it is. `state` and `job` are the states of the task and of its latest job;
\* `reason` is why it is blocked; `errors`, `timeouts` and `lost` count against the retries of the
\* live job; `cancel`: a cancel was requested, and the worker has not stopped yet; `settled`: the
\* parent does not wait for this failed subtask any more; `accepts`: the latest job carries out the
\* action of a person who has accepted the result; `outside`: an event that detent sent although
\* the table does not have it.
VARIABLE tasks

Tasks == {"task"} \cup (IF WithSubtask THEN {"subtask"} ELSE {})
                  \cup (IF WithDependency THEN {"dependency"} ELSE {})

JobStates == {"none", "queued", "running", "waiting", "retrying", "completed", "failed", "cancelled"}
EndedJob == {"completed", "failed", "cancelled"}
Reasons == {"none", "retry", "question", "lack", "dependency", "subtasks", "failed"}
Absent == "absent"  \* the state of a subtask that was not submitted yet

Target == [pair \in {<<row[1], row[2]>> : row \in Rows} |->
              (CHOOSE row \in Rows : <<row[1], row[2]>> = pair)[3]]

\* ---- questions about a task -------------------------------------------------------------------

Lower(a, b) == IF a < b THEN a ELSE b
Exists(w, t) == w[t].state # Absent
InPhase(w, t, phase) == Exists(w, t) /\ PhaseOf[w[t].state] = phase
May(w, t, event) == <<w[t].state, event>> \in DOMAIN Target
IsDone(w, t) == Exists(w, t) /\ EndingOf[w[t].state] = "done"
HasFailed(w, t) ==
    \/ Exists(w, t) /\ EndingOf[w[t].state] \in {"failed", "cancelled"}
    \/ InPhase(w, t, "blocked") /\ w[t].reason = "failed"
HasSubtask(w, t) == t = "task" /\ WithSubtask /\ Exists(w, "subtask")
SubtaskIsOpen(w, t) == HasSubtask(w, t) /\ ~IsDone(w, "subtask") /\ ~w["subtask"].settled
DependencyIsOpen(w, t) == t = "task" /\ WithDependency /\ ~IsDone(w, "dependency")
DependencyHasFailed(w, t) == t = "task" /\ WithDependency /\ HasFailed(w, "dependency")
RoundsAreLeft(w, t) == w[t].rounds < RoundLimit

\* ---- rules ------------------------------------------------------------------------------------

Holds(predicate, w, t, cause) ==
    CASE predicate = "is_subtask"        -> t = "subtask"
      [] predicate = "has_no_subtasks"   -> ~HasSubtask(w, t)
      [] predicate = "subtasks_are_open" -> SubtaskIsOpen(w, t)
      [] predicate = "timed_out"         -> cause = "timeout"
      [] predicate = "budget_exceeded"   -> cause = "budget"
      [] predicate = "quarantined"       -> cause = "lost"
      [] predicate = "dependency_failed" -> cause = "dependency"
      [] predicate = "rounds_are_left"   -> RoundsAreLeft(w, t)
      [] predicate = "result_is_false"   -> cause = "false"
      [] predicate = "is_acceptance"     -> w[t].accepts
      [] predicate = "has_conflicts"     -> cause = "conflicts"

Applies(rule, w, t, when, cause) ==
    /\ rule.when = when
    /\ rule.in = {} \/ w[t].state \in rule.in
    /\ \A predicate \in rule.given : Holds(predicate, w, t, cause)

RECURSIVE Emit(_, _, _, _), EmitAll(_, _, _, _), Follow(_, _, _, _), Cancel(_, _)

\* Send the events of the first rule that applies; without one, nothing happens.
Follow(w, t, when, cause) ==
    LET found == {i \in 1..Len(Rules) : Applies(Rules[i], w, t, when, cause)}
    IN  IF found = {} THEN w
        ELSE EmitAll(w, t, Rules[CHOOSE i \in found : \A j \in found : i <= j].then, cause)

EmitAll(w, t, events, cause) ==
    IF events = <<>> THEN w
    ELSE EmitAll(Emit(w, t, Head(events), cause), t, Tail(events), cause)

\* ---- the job ----------------------------------------------------------------------------------

WithJob(w, t, state) == [w EXCEPT ![t].job = state]
Uncounted(w, t) == [w EXCEPT ![t].errors = 0, ![t].timeouts = 0, ![t].lost = 0]
\* A new job, or the failed one again with new counts: a cancel request was for the one before.
NewJob(w, t) == [Uncounted(WithJob(w, t, "queued"), t) EXCEPT ![t].cancel = FALSE,
                                                              ![t].accepts = FALSE]
\* The job of an acceptance, whose work is the declared action.
AcceptanceJob(w, t) == [NewJob(w, t) EXCEPT ![t].accepts = TRUE]
\* A wait ends: the job is queued again, which counts as progress.
Woken(w, t) == [WithJob(w, t, "queued") EXCEPT ![t].lost = 0]
EndJob(w, t, state) == Uncounted(WithJob(w, t, state), t)

JobCompleted(w, t, cause) == Follow(EndJob(w, t, "completed"), t, "job_completed", cause)
JobCancelled(w, t, cause) == Follow(EndJob(w, t, "cancelled"), t, "job_cancelled", cause)
\* A blocked task is unblocked first.
JobFailed(w, t, cause) ==
    LET v == IF InPhase(w, t, "blocked") THEN Emit(w, t, "task_unblocked", cause) ELSE w
    IN  Follow(EndJob(v, t, "failed"), t, "job_failed", cause)

\* The reason is gone: continue the job, or create one if the last has completed or was cancelled.
Unblock(w, t) ==
    LET v == Emit(w, t, "task_unblocked", "gone")
    IN  CASE w[t].job \in {"none", "completed", "cancelled", "failed"} -> NewJob(v, t)
          [] w[t].job = "waiting"  -> Woken(v, t)
          [] w[t].job = "retrying" -> WithJob(v, t, "queued")
          [] OTHER                 -> v

\* ---- an event of a task, and what follows from it ---------------------------------------------

ReasonOf(cause) ==
    CASE cause \in {"error", "timeout", "budget", "lost"} -> "failed"
      [] cause \in {"cancelled", "dependency"}            -> "dependency"
      [] cause \in {"retry", "question", "lack"}          -> cause
      [] OTHER                                            -> "subtasks"

KeepsCancel == {"task_started", "task_unblocked", "task_answered", "task_rejected", "task_accepted"}

Moved(w, t, event, cause) ==
    LET x == w[t]
        target == Target[<<x.state, event>>]
    IN  [w EXCEPT ![t] = [x EXCEPT
            !.state = target,
            !.reason = IF event = "task_blocked" THEN ReasonOf(cause) ELSE "none",
            !.cancel = x.cancel /\ event \in KeepsCancel /\ EndingOf[target] = "none",
            !.rounds = IF event \in RoundEvents THEN Lower(x.rounds + 1, RoundLimit + 1)
                       ELSE x.rounds]]

\* The last subtask is settled: the parent that waits only for it is finished.
FinishParent(w) ==
    LET waits == IF InPhase(w, "task", "blocked") THEN w["task"].reason = "subtasks"
                 ELSE InPhase(w, "task", "working") /\ w["task"].job = "completed"
    IN  IF waits /\ w["task"].job # "none" THEN Follow(w, "task", "subtasks_settled", "settled")
        ELSE w

AfterEndOfSubtask(w, t) ==
    IF t = "subtask" /\ IsDone(w, t) /\ ~w[t].settled THEN FinishParent(w) ELSE w

CancelForDependency(w) ==
    IF w["task"].job = "queued" /\ (InPhase(w, "task", "queued") \/ InPhase(w, "task", "blocked"))
    THEN JobCancelled(w, "task", "dependency") ELSE w

AfterEndOfDependency(w, t) ==
    CASE t # "dependency" -> w
      [] IsDone(w, t) /\ InPhase(w, "task", "blocked") /\ w["task"].reason = "dependency" ->
             Unblock(w, "task")
      [] HasFailed(w, t) -> CancelForDependency(w)
      [] OTHER -> w

\* A task that was queued while its dependency is not done is blocked, or does not run at all.
AfterQueued(w, t) ==
    CASE DependencyHasFailed(w, t) -> CancelForDependency(w)
      [] DependencyIsOpen(w, t) /\ May(w, t, "task_blocked") ->
             Emit(w, t, "task_blocked", "dependency")
      [] OTHER -> w

CancelSubtask(w, t) ==
    IF HasSubtask(w, t) /\ May(w, "subtask", "task_cancelled") THEN Cancel(w, "subtask") ELSE w

Unended == {"task_queued", "task_started", "task_unblocked", "task_answered", "task_retried",
            "task_resumed", "task_accepting"}

AfterEvent(w, t, event) ==
    LET ended == IF event \in Unended THEN w
                 ELSE AfterEndOfDependency(AfterEndOfSubtask(w, t), t)
    IN  CASE event \in Queues         -> AfterQueued(NewJob(ended, t), t)
          [] event = "task_accepting" -> AcceptanceJob(ended, t)
          [] event = "task_cancelled" -> CancelSubtask(ended, t)
          [] OTHER                    -> ended

Emit(w, t, event, cause) ==
    IF May(w, t, event) THEN AfterEvent(Moved(w, t, event, cause), t, event)
    ELSE [w EXCEPT ![t].outside = event]

Cancel(w, t) ==
    CASE w[t].job = "none" \/ w[t].job \in EndedJob -> Emit(w, t, "task_cancelled", "cancelled")
      [] w[t].job = "running" ->
             IF w[t].cancel THEN w ELSE CancelSubtask([w EXCEPT ![t].cancel = TRUE], t)
      [] OTHER -> JobCancelled(w, t, "cancelled")

\* ---- what people do ---------------------------------------------------------------------------
\* Each of these is the set of the results: empty if detent refuses the command.

Refusing(results) == {v \in results : \A t \in Tasks : v[t].outside = ""}
If(condition, result) == IF condition THEN Refusing({result}) ELSE {}

NoQuestion(w, t) == w[t].reason # "question"
Can(w, t, event) == May(w, t, event) /\ NoQuestion(w, t)

Queue(w, t) == If(Can(w, t, "task_queued") /\ ~May(w, t, "task_retried"),
                  Emit(w, t, "task_queued", "person"))
Retry(w, t) == If(/\ May(w, t, "task_retried")
                  /\ ~InPhase(w, t, "blocked")
                  /\ ~DependencyHasFailed(w, t)
                  /\ w[t].job = "none" \/ w[t].job \in EndedJob,
                  NewJob(Emit(w, t, "task_retried", "person"), t))
Resume(w, t) == If(Can(w, t, "task_resumed") /\ w[t].job = "failed",
                   NewJob(Emit(w, t, "task_resumed", "person"), t))
Accept(w, t) == If(Can(w, t, "task_accepted"), Emit(w, t, "task_accepted", "person"))
AcceptWithAction(w, t) == If(Can(w, t, "task_accepting"), Emit(w, t, "task_accepting", "person"))
Reject(w, t) == If(Can(w, t, "task_rejected") /\ RoundsAreLeft(w, t),
                   Emit(w, t, "task_rejected", "person"))
Release(w, t) == If(/\ Can(w, t, "task_unblocked")
                    /\ ~(w[t].reason = "dependency" /\ DependencyIsOpen(w, t)),
                    Unblock(w, t))
Answer(w, t) == If(w[t].job = "waiting" /\ w[t].reason = "question",
                   IF May(w, t, "task_answered")
                   THEN Woken(Emit(w, t, "task_answered", "person"), t)
                   ELSE Unblock(w, t))
GiveUp(w, t) == If(Exists(w, t), Cancel(w, t))
Send(w, t, event) == If(/\ <<w[t].state, event>> \in SentByPeople
                        /\ NoQuestion(w, t)
                        /\ event \in RoundEvents => RoundsAreLeft(w, t),
                        Emit(w, t, event, "person"))

Submit(w, t) ==
    LET created == [w EXCEPT ![t].state = Initial]
    IN  If(/\ t = "subtask" /\ ~Exists(w, t)
           /\ w["task"].state \notin Terminal \cup UnderReview,
           Emit(created, t, IF w["task"].cancel THEN "task_cancelled" ELSE "task_queued", "person"))
Dismiss(w, t) ==
    If(t = "subtask" /\ HasFailed(w, t) /\ ~w[t].settled, FinishParent([w EXCEPT ![t].settled = TRUE]))

\* ---- what a worker does -----------------------------------------------------------------------
\* An event outside of the table is an error here: the worker would not be heard.

\* The delay before a retry is over.
DueNow(w, t) ==
    LET v == WithJob(w, t, "queued")
    IN  IF InPhase(v, t, "blocked") /\ v[t].reason = "retry"
        THEN Emit(v, t, "task_unblocked", "due") ELSE v

Claimed(w, t) ==
    LET v == IF w[t].job = "retrying" THEN DueNow(w, t) ELSE w
    IN  IF w[t].job \in {"queued", "retrying"} /\ ~DependencyIsOpen(w, t)
        THEN {Follow(WithJob(v, t, "running"), t, "run_started", "started")} ELSE {}

\* A run that ends in any other way than well obeys a cancel that was requested.
Unless(w, t, results) ==
    CASE w[t].job # "running" -> {}
      [] w[t].cancel          -> {JobCancelled(w, t, "cancelled")}
      [] OTHER                -> results

Completed(w, t) ==
    CASE w[t].job # "running" -> {}
      [] w[t].accepts         -> {JobCompleted(w, t, "true"), JobCompleted(w, t, "conflicts")}
      [] OTHER                -> {JobCompleted(w, t, "true"), JobCompleted(w, t, "false")}

Blocked(w, t, cause) ==
    IF InPhase(w, t, "working") THEN Emit(w, t, "task_blocked", cause) ELSE w
\* Back into the queue. No lifecycle leads from work to the queue but over a blocked state.
Requeued(w, t) ==
    IF InPhase(w, t, "working")
    THEN Emit(Emit(WithJob(w, t, "queued"), t, "task_blocked", "retry"), t, "task_unblocked", "due")
    ELSE WithJob(w, t, "queued")

AttemptIsLeft(w, t) == MaxAttempts = 0 \/ w[t].errors + w[t].timeouts + 1 < MaxAttempts
Retried(v, t, immediate) ==
    IF immediate THEN WithJob(v, t, "queued") ELSE Blocked(WithJob(v, t, "retrying"), t, "retry")
Errored(w, t) ==
    IF w[t].errors < ErrorRetries /\ AttemptIsLeft(w, t)
    THEN Retried([w EXCEPT ![t].errors = @ + 1], t, ImmediateRetry.error)
    ELSE JobFailed(w, t, "error")
RanOutOfTime(w, t) ==
    IF w[t].timeouts < TimeoutRetries /\ AttemptIsLeft(w, t)
    THEN Retried([w EXCEPT ![t].timeouts = @ + 1], t, ImmediateRetry.timeout)
    ELSE JobFailed(w, t, "timeout")
RateLimited(w, t) == Blocked(WithJob(w, t, "retrying"), t, "retry")
WorkerLost(w, t) ==
    IF w[t].lost < LostRetries THEN Requeued([w EXCEPT ![t].lost = @ + 1], t)
    ELSE JobFailed(w, t, "lost")

Failed(w, t) == Unless(w, t, {Errored(w, t), JobFailed(w, t, "budget"), RateLimited(w, t)})
TimedOut(w, t) == Unless(w, t, {RanOutOfTime(w, t)})
Asked(w, t) == Unless(w, t, {Blocked(WithJob(w, t, "waiting"), t, "question")})
Lacking(w, t) == Unless(w, t, {Blocked(WithJob(w, t, "waiting"), t, "lack")})
Slept(w, t) == Unless(w, t, {WithJob(w, t, "waiting")})
HandedBack(w, t) == Unless(w, t, {Requeued(w, t)})
Progressed(w, t) ==
    IF w[t].job = "running" /\ w[t].lost > 0 THEN {[w EXCEPT ![t].lost = 0]} ELSE {}

\* ---- what the keeper does ---------------------------------------------------------------------

Crashed(w, t) == Unless(w, t, {WorkerLost(w, t)})
Due(w, t) == IF w[t].job = "retrying" THEN {DueNow(w, t)} ELSE {}
WaitEnded(w, t) ==
    CASE w[t].job # "waiting"   -> {}
      [] w[t].reason = "none"   -> {Woken(w, t)}
      [] w[t].reason = "lack"   -> {Unblock(w, t)}
      [] OTHER                  -> {}
\* Of the timers that are due the first is sent.
IsFirst(w, t, i) == \A j \in 1..(i - 1) :
    ~(Timers[j].state = Timers[i].state /\ Timers[j].after <= Timers[i].after)
Expired(w, t, i) ==
    CASE w[t].state # Timers[i].state \/ ~IsFirst(w, t, i) -> {}
      [] Timers[i].event = "task_cancelled" -> {Cancel(w, t)}
      [] OTHER -> {Emit(w, t, Timers[i].event, "timer")}

\* ---- the steps --------------------------------------------------------------------------------

@DECLARED@

task_queued(t) == tasks' \in Queue(tasks, t)
task_retried(t) == tasks' \in Retry(tasks, t)
task_resumed(t) == tasks' \in Resume(tasks, t)
task_accepted(t) == tasks' \in Accept(tasks, t)
task_accepting(t) == tasks' \in AcceptWithAction(tasks, t)
task_rejected(t) == tasks' \in Reject(tasks, t)
task_unblocked(t) == tasks' \in Release(tasks, t)
task_answered(t) == tasks' \in Answer(tasks, t)
task_cancelled(t) == tasks' \in GiveUp(tasks, t)
SubmitSubtask(t) == tasks' \in Submit(tasks, t)
DismissSubtask(t) == tasks' \in Dismiss(tasks, t)

Claim(t) == tasks' \in Claimed(tasks, t)
Complete(t) == tasks' \in Completed(tasks, t)
Fail(t) == tasks' \in Failed(tasks, t)
TimeOut(t) == tasks' \in TimedOut(tasks, t)
Ask(t) == tasks' \in Asked(tasks, t)
WaitForResource(t) == tasks' \in Lacking(tasks, t)
Wait(t) == tasks' \in Slept(tasks, t)
HandBack(t) == tasks' \in HandedBack(tasks, t)
Progress(t) == tasks' \in Progressed(tasks, t)

Crash(t) == tasks' \in Crashed(tasks, t)
RetryIsDue(t) == tasks' \in Due(tasks, t)
EndWait(t) == tasks' \in WaitEnded(tasks, t)
TimerIsDue(t) == \E i \in 1..Len(Timers) : tasks' \in Expired(tasks, t, i)

\* A worker reports in one of these ways, or the keeper reclaims its job.
EndOfRun(t) == \/ Complete(t) \/ Fail(t) \/ TimeOut(t) \/ Ask(t) \/ WaitForResource(t)
               \/ Wait(t) \/ HandBack(t) \/ Crash(t)

ByPeople(t) == \/ task_queued(t) \/ task_retried(t) \/ task_resumed(t) \/ task_accepted(t)
               \/ task_rejected(t) \/ task_unblocked(t) \/ task_answered(t) \/ task_cancelled(t)
               \/ task_accepting(t) \/ SubmitSubtask(t) \/ DismissSubtask(t) \/ Declared(t)
ByDetent(t) == \/ Claim(t) \/ EndOfRun(t) \/ Progress(t)
               \/ RetryIsDue(t) \/ EndWait(t) \/ TimerIsDue(t)

Created(t) ==
    [state |-> IF t = "subtask" THEN Absent ELSE Initial, job |-> "none", reason |-> "none",
     rounds |-> 0, errors |-> 0, timeouts |-> 0, lost |-> 0, cancel |-> FALSE, settled |-> FALSE,
     accepts |-> FALSE, outside |-> ""]
Beginning == [t \in Tasks |-> Created(t)]

Init == tasks = Beginning
Next == \E t \in Tasks : ByPeople(t) \/ ByDetent(t)

\* Workers and the keeper do what they can do; people need not do anything.
Fairness == \A t \in Tasks : /\ WF_tasks(Claim(t))
                             /\ WF_tasks(EndOfRun(t))
                             /\ WF_tasks(RetryIsDue(t))
                             /\ WF_tasks(EndWait(t))
                             /\ WF_tasks(TimerIsDue(t))

Spec == Init /\ [][Next]_tasks /\ Fairness

\* ---- from which states an end can be reached --------------------------------------------------
\* "Some continuation ends" is not a temporal formula, so TLC computes the set of states: all that
\* can be reached, and of these, backwards from the ended ones, those that lead to an end.

StepsOf(w, t) ==
    UNION {Queue(w, t), Retry(w, t), Resume(w, t), Accept(w, t), AcceptWithAction(w, t),
           Reject(w, t), Release(w, t), Answer(w, t), GiveUp(w, t), Submit(w, t), Dismiss(w, t),
           Claimed(w, t), Completed(w, t),
           Failed(w, t), TimedOut(w, t), Asked(w, t), Lacking(w, t), Slept(w, t), HandedBack(w, t),
           Progressed(w, t), Crashed(w, t), Due(w, t), WaitEnded(w, t)}
    \cup UNION {Send(w, t, pair[2]) : pair \in SentByPeople}
    \cup UNION {Expired(w, t, i) : i \in 1..Len(Timers)}

RECURSIVE Reached(_, _), Leading(_, _, _)
Reached(known, new) ==
    IF new = {} THEN known
    ELSE LET next == UNION {StepsOf(w, t) : w \in new, t \in Tasks}
         IN  Reached(known \cup next, next \ known)
Leading(able, rest, after) ==
    LET more == {w \in rest : after[w] \cap able # {}}
    IN  IF more = {} THEN able ELSE Leading(able \cup more, rest \ more, after)

HasEnded(w) == \A t \in Tasks : Exists(w, t) => w[t].state \in Terminal
AbleToEnd ==
    IF ~SearchForEnds THEN {}
    ELSE LET all == Reached({Beginning}, {Beginning})
             ended == {w \in all : HasEnded(w)}
         IN  Leading(ended, all \ ended, [w \in all |-> UNION {StepsOf(w, t) : t \in Tasks}])

\* ---- what must hold in every state ------------------------------------------------------------

TypeOK ==
    \A t \in Tasks :
        /\ tasks[t].state \in States \cup (IF t = "subtask" THEN {Absent} ELSE {})
        /\ tasks[t].job \in JobStates
        /\ tasks[t].reason \in Reasons
        /\ tasks[t].rounds \in 0..(RoundLimit + 1)
        /\ tasks[t].errors \in 0..ErrorRetries
        /\ tasks[t].timeouts \in 0..TimeoutRetries
        /\ tasks[t].lost \in 0..LostRetries
        /\ tasks[t].cancel \in BOOLEAN
        /\ tasks[t].settled \in BOOLEAN
        /\ tasks[t].accepts \in BOOLEAN

\* The states that the job may have in each phase of its task.
Fits == [idle    |-> {"none"} \cup EndedJob,
         queued  |-> {"queued"},
         working |-> {"queued", "running", "waiting"},
         blocked |-> {"queued", "waiting", "retrying"} \cup EndedJob]
PhaseFitsJob == \A t \in Tasks : Exists(tasks, t) =>
    /\ tasks[t].job \in Fits[PhaseOf[tasks[t].state]]
    /\ InPhase(tasks, t, "blocked") <=> tasks[t].reason # "none"

RoundsStayInLimit == \A t \in Tasks : tasks[t].rounds <= RoundLimit

NoEventOutsideOfTable == \A t \in Tasks : tasks[t].outside = ""

\* From every state that can be reached, some steps lead to the end of all tasks.
AnEndStaysReachable == SearchForEnds => tasks \in AbleToEnd

\* ---- what must hold of every behaviour --------------------------------------------------------

EndsAreFinal ==
    [][\A t \in Tasks : tasks[t].state \in Terminal => tasks'[t].state = tasks[t].state]_tasks

QueueIsServed == \A t \in Tasks :
    (InPhase(tasks, t, "queued") /\ ~DependencyIsOpen(tasks, t)) ~> ~InPhase(tasks, t, "queued")

CancelIsObeyed == \A t \in Tasks : tasks[t].cancel ~> ~tasks[t].cancel

EveryRunEnds == \A t \in Tasks : tasks[t].job = "running" ~> tasks[t].job # "running"

=================================================================================================
