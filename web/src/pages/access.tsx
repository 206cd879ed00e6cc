// Who has access: the browser sessions, which can be ended, and the tokens, which can be revoked.
import { type ReactNode, useState } from "react";
import type { Problem } from "../api/call";
import { useRead, useVerb } from "../api/hooks";
import type { Session, Token } from "../api/schema";
import { plain } from "../text";
import { Dialog } from "../ui/dialog";
import { Command, Loading, Trouble } from "../ui/notes";
import { Mark } from "../ui/state";
import { say } from "../ui/toast";
import { When } from "../ui/when";

const EVERY_MS = 5_000;
const onError = (problem: Problem) => say(plain(problem.message), { bad: true });

export default function Access() {
  const me = useRead("show_me", {}, { fixed: true }).data;
  return (
    <>
      <h1>Access</h1>
      <Sessions />
      {me?.scopes.includes("admin") && <Tokens />}
    </>
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
  return (
    <tr data-id={session.id}>
      <td>
        <code className="mono">{session.id}</code>{" "}
        {session.current && <Mark look="good">this browser</Mark>}
      </td>
      <td>{plain(session.token)}</td>
      <td>{session.project ? plain(session.project) : "all"}</td>
      <td>
        <When at={session.created_at} />
      </td>
      <td>
        <When at={session.expires_at} />
      </td>
      <td>
        <span className="row end">
          <button
            type="button"
            className="button small"
            disabled={end.isPending}
            onClick={() => end.mutate({ session_id: session.id })}
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
      <td>{token.scopes.join(", ")}</td>
      <td>{token.project ? plain(token.project) : "all"}</td>
      <td>
        <When at={token.created_at} />
      </td>
      <td>{token.expires_at ? <When at={token.expires_at} /> : "never"}</td>
      <td>
        <span className="row end">
          <button type="button" className="button small" onClick={() => setAsked(true)}>
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
      <table className="list" aria-label={name}>
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
