// The application: the session, the router and the live feed.
import { lazy, Suspense, useEffect } from "react";
import { client } from "./api/hooks";
import { feed } from "./live/feed";
import { Inbox } from "./pages/inbox/page";
import { decisions, sendOnLeaving } from "./pages/inbox/settling";
import { useWaiting } from "./pages/inbox/waiting";
import { SignIn } from "./pages/signin";
import { Link, match, usePath } from "./router";
import { useSession } from "./session";
import { Boundary } from "./ui/boundary";
import { Emblem } from "./ui/emblem";
import { Loading, Trouble } from "./ui/notes";
import { useNotifications } from "./ui/notifications";
import { Shell } from "./ui/shell";
import { TablesProvider } from "./ui/tables";
import { Title, useWaitingTitle } from "./ui/title";

const PAGES = [
  ["/inbox/:id?", Inbox],
  ["/board", lazy(() => import("./pages/board/page"))],
  ["/tasks/:id/review", lazy(() => import("./pages/review/page"))],
  ["/tasks/:id/variants", lazy(() => import("./pages/variants/page"))],
  ["/tasks/:id/:tab?", lazy(() => import("./pages/task/page"))],
  ["/new", lazy(() => import("./pages/new_task"))],
  ["/jobs", lazy(() => import("./pages/jobs"))],
  ["/jobs/:id", lazy(() => import("./pages/job"))],
  ["/runs", lazy(() => import("./pages/runs"))],
  ["/runs/:id", lazy(() => import("./pages/run"))],
  ["/workers", lazy(() => import("./pages/workers"))],
  ["/schedules", lazy(() => import("./pages/schedules"))],
  ["/access", lazy(() => import("./pages/access"))],
  ["/system", lazy(() => import("./pages/health"))],
  ["/lifecycles/:name?", lazy(() => import("./pages/lifecycles"))],
  ["/:nothing?", Inbox],
] as const;

export function App() {
  const [session, enter] = useSession();
  if (session.kind === "asking") return <Loading what="detent" />;
  if (session.kind === "out") return <SignIn problem={session.problem} enter={enter} />;
  if (session.kind === "unreachable") {
    return (
      <main className="alone">
        <h1>
          <Emblem />
          detent
        </h1>
        <Trouble problem={session.problem} again={() => enter()} />
      </main>
    );
  }
  return (
    <TablesProvider>
      <Inside />
    </TablesProvider>
  );
}

function Inside() {
  useEffect(() => {
    const readAnew = () => void client.invalidateQueries();
    feed.onRegained = readAnew;
    // Whatever is read next is refused, and that shows the way in.
    feed.onSignedOut = readAnew;
    feed.start();
    addEventListener("online", feed.retry);
    return () => {
      removeEventListener("online", feed.retry);
      feed.stop();
    };
  }, []);
  useEffect(sendOnLeaving, []);
  const path = usePath();
  const { count, total } = useWaiting();
  useWaitingTitle(count);
  useNotifications(total);
  return (
    <Shell waiting={count} onLeave={() => decisions.flush()}>
      <Suspense fallback={<Loading what="the page" />}>
        <Boundary place={path}>
          <Page path={path} />
        </Boundary>
      </Suspense>
    </Shell>
  );
}

function Page({ path }: { path: string }) {
  for (const [pattern, Component] of PAGES) {
    const found = match(pattern, path);
    if (found?.nothing) break;
    if (found) return <Component {...(found as { id: string; name: string; tab: string })} />;
  }
  return (
    <>
      <Title>There is no such page</Title>
      <p>
        <Link to="/">Go to the inbox</Link>, or check the address.
      </p>
    </>
  );
}
