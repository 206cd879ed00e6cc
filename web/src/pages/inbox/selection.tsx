// Decisions about several items together: each is legal for some of them, and has their number.
import type { InboxTask } from "../../api/schema";
import { Bulk, type Verb } from "../../ui/bulk";
import { may } from "./kinds";

const fits = (action: string) => (task: InboxTask) => may(task, action);
const of = (task: InboxTask) => task.id;
const seen = (tasks: readonly InboxTask[]) => ({
  seen: Object.fromEntries(tasks.map((task) => [task.id, task.version])),
});

const VERBS: Verb<InboxTask>[] = [
  { name: "Accept", fits: fits("accept"), operation: "accept_many", of, more: seen },
  {
    name: "Reject",
    danger: true,
    fits: fits("reject"),
    operation: "reject_many",
    of,
    asks: "Comment (the next run of each gets it)",
    more: (tasks, comment) => ({ ...seen(tasks), comment: comment || null, run: true }),
  },
  { name: "Retry", fits: fits("retry"), operation: "retry_many", of },
  { name: "Dismiss", fits: fits("dismiss"), operation: "dismiss_many", of },
  { name: "Cancel", danger: true, fits: fits("cancel"), operation: "cancel_many", of },
];

interface Props {
  tasks: readonly InboxTask[];
  onDone: () => void;
}

export function Selection({ tasks, onDone }: Props) {
  return <Bulk noun="item" items={tasks} verbs={VERBS} chooseAll={null} onDone={onDone} />;
}
