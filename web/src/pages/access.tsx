// Who has access: the browser sessions, which can be ended, the people who signed in through a
// provider, and the tokens, which can be revoked.
import { type ReactNode, useState } from "react";
import type { Problem } from "../api/call";
import { useRead, useVerb } from "../api/hooks";
import type { Me, Session, Token, User } from "../api/schema";
import { plain } from "../text";
import { Dialog } from "../ui/dialog";
import { Command, Loading, Trouble } from "../ui/notes";
import { Mark } from "../ui/state";
import { Title } from "../ui/title";
import { say } from "../ui/toast";
import { When } from "../ui/when";
import { decisions } from "./inbox/settling";

const EVERY_MS = 5_000;
const onError = (problem: Problem) => say(plain(problem.message), { bad: true });

export default function Access() {
  const me = useRead("show_me", {}, { fixed: true }).data;
  return (
    <>
      <Title>Access</Title>
      {me && me.projects.length > 0 && <Person me={me} />}
      <Sessions />
      {me?.scopes.includes("admin") && <Users />}
      {me?.scopes.includes("admin") && <Tokens />}
    </>
  );
}

/** The person who is signed in, and the project in which the session acts. */
function Person({ me }: { me: Me }) {
  const change = useVerb("switch_project", { onSuccess: () => location.reload(), onError });
  return (
    <section aria-labelledby="person-title">
      <h2 id="person-title">{plain(me.name)}</h2>
      <p className="note">Scopes: {me.scopes.join(", ") || "none"}</p>
      <label className="row">
        Project{" "}
        <select
          className="input"
          value={me.project ?? ""}
          disabled={change.isPending || me.projects.length < 2}
          onChange={(event) => change.mutate({ project: event.target.value || null })}
        >
          {me.projects.map((each) => (
            <option key={each ?? ""} value={each ?? ""}>
              {each ? plain(each) : "all projects"}
            </option>
          ))}
        </select>
      </label>
    </section>
  );
}

function Users() {
  const users = useRead("list_users", {}, { everyMs: EVERY_MS });
  if (!users.data?.items.length) return null;
  return (
    <section aria-labelledby="users-title">
      <h2 id="users-title">Users</h2>
      <p className="note">
        People who have signed in through the provider. The setting <code>oidc.roles</code> of the
        gateway decides about their roles.
      </p>
      <Table name="Users" columns={["Name", "Roles", "Groups", "Sessions", "Signed in"]}>
        {users.data.items.map((each) => (
          <UserLine key={each.name} user={each} />
        ))}
      </Table>
    </section>
  );
}

function UserLine({ user }: { user: User }) {
  const done = () => say(`Removed: ${plain(user.name)}`);
  const remove = useVerb("remove_user", { onSuccess: done, onError });
  return (
    <tr data-id={user.name}>
      <td>
        <strong>{plain(user.name)}</strong>
      </td>
      <td data-name="Roles">{user.roles.map(plain).join(", ") || "none"}</td>
      <td data-name="Groups">{user.groups.map(plain).join(", ")}</td>
      <td data-name="Sessions">{user.sessions}</td>
      <td data-name="Signed in">
        <When at={user.signed_in_at} />
      </td>
      <td className="acts">
        <span className="row end">
          <button
            type="button"
            className="button small"
            disabled={remove.isPending}
            onClick={() => remove.mutate({ name: user.name })}
          >
            Remove
          </button>
        </span>
      </td>
    </tr>
  );
}

function Sessions() {
  const sessions = useRead("list_sessions", {}, { everyMs: EVERY_MS });
  return (
    <section aria-labelledby="sessions-title">
      <h2 id="sessions-title">Sessions</h2>
      <p className="note">
        Browsers that are signed in. A session also ends when its token expires or is revoked.
      </p>
      {sessions.error && <Trouble problem={sessions.error} again={sessions.refetch} />}
      {!sessions.data && !sessions.error && <Loading what="the sessions" />}
      {sessions.data && (
        <Table name="Sessions" columns={["Session", "Token", "Project", "Signed in", "Ends"]}>
          {sessions.data.items.map((each) => (
            <SessionLine key={each.id} session={each} />
          ))}
        </Table>
      )}
    </section>
  );
}

function SessionLine({ session }: { session: Session }) {
  const end = useVerb("end_session", { onSuccess: () => say("The session has ended."), onError });
  const stop = async () => {
    // Without the session, what was decided in the inbox would be refused.
    if (session.current) await decisions.flush();
    end.mutate({ session_id: session.id });
  };
  return (
    <tr data-id={session.id}>
      <td>
        <code className="mono">{session.id}</code>{" "}
        {session.current && <Mark look="good">this browser</Mark>}
      </td>
      <td data-name="Token">{plain(session.token)}</td>
      <td data-name="Project">{session.project ? plain(session.project) : "all"}</td>
      <td data-name="Signed in">
        <When at={session.created_at} />
      </td>
      <td data-name="Ends">
        <When at={session.expires_at} />
      </td>
      <td className="acts">
        <span className="row end">
          <button
            type="button"
            className="button small"
            disabled={end.isPending}
            onClick={() => void stop()}
          >
            {session.current ? "Sign out" : "End"}
          </button>
        </span>
      </td>
    </tr>
  );
}

function Tokens() {
  const tokens = useRead("list_tokens", {}, { everyMs: EVERY_MS });
  return (
    <section aria-labelledby="tokens-title">
      <h2 id="tokens-title">Tokens</h2>
      {tokens.error && <Trouble problem={tokens.error} again={tokens.refetch} />}
      {tokens.data && (
        <Table name="Tokens" columns={["Name", "Scopes", "Project", "Created", "Expires"]}>
          {tokens.data.items.map((each) => (
            <TokenLine key={each.name} token={each} />
          ))}
        </Table>
      )}
      <p className="note">To create a token, use the command line:</p>
      <Command>detent tokens create NAME --scope read</Command>
    </section>
  );
}

function TokenLine({ token }: { token: Token }) {
  const [asked, setAsked] = useState(false);
  const done = () => say(`Revoked: ${plain(token.name)}`);
  const revoke = useVerb("revoke_token", { onSuccess: done, onError });
  return (
    <tr data-id={token.name}>
      <td>
        <strong>{plain(token.name)}</strong>
      </td>
      <td data-name="Scopes">{token.scopes.join(", ")}</td>
      <td data-name="Project">{token.project ? plain(token.project) : "all"}</td>
      <td data-name="Created">
        <When at={token.created_at} />
      </td>
      <td data-name="Expires">{token.expires_at ? <When at={token.expires_at} /> : "never"}</td>
      <td className="acts">
        <span className="row end">
          <button type="button" className="button small danger" onClick={() => setAsked(true)}>
            Revoke
          </button>
        </span>
        {asked && (
          <Dialog
            title={`Revoke the token ${plain(token.name)}?`}
            action="Revoke"
            danger
            busy={revoke.isPending}
            onDo={() => revoke.mutate({ name: token.name }, { onSettled: () => setAsked(false) })}
            onClose={() => setAsked(false)}
          >
            <p>Its sessions end too. Programs that use it are refused from now on.</p>
          </Dialog>
        )}
      </td>
    </tr>
  );
}

interface TableProps {
  name: string;
  columns: string[];
  children: ReactNode;
}

/** A table whose last column has the actions. */
function Table({ name, columns, children }: TableProps) {
  return (
    <div className="scroll">
      <table className="list stacking no-choice" aria-label={name}>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column} scope="col">
                {column}
              </th>
            ))}
            <th scope="col">
              <span className="unseen">Actions</span>
            </th>
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}
