// A link to a task in a table: its title and its short id.
import { Link, linkTo } from "../router";
import { plain, shortId } from "../text";

export function TaskLink({ id, title }: { id: string | null; title: string }) {
  if (id === null) return <span className="faint">no task</span>;
  return (
    <Link to={linkTo.task(id)} className="task-link">
      {title && <span>{plain(title)} </span>}
      <span className="mono faint">{shortId(id)}</span>
    </Link>
  );
}
