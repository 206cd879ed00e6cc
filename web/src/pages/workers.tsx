// Workers with the jobs that they run, and resources with the steps that hold them.
import { useFresh, useRead, useVerb } from "../api/hooks";
import type { Resource, Worker } from "../api/schema";
import { Link, linkTo } from "../router";
import { plain, plural, shortId } from "../text";
import { Meter } from "../ui/meter";
import { Command, Empty, Loading, Trouble } from "../ui/notes";
import { Mark } from "../ui/state";
import { Title } from "../ui/title";
import { When } from "../ui/when";
import { lookOf, ProviderFacts, ResetProvider } from "./provider";

export default function Workers() {
  const workers = useRead("list_workers", {}, { everyMs: 5_000 });
  const resources = useRead("list_resources", {}, { everyMs: 5_000 });
  useFresh(
    ["list_workers", "list_resources"],
    (event) => /^(job|run|step)_/.test(event.name),
    1_500,
  );
  return (
    <>
      <Title>Workers and resources</Title>
      <section aria-labelledby="workers-title">
        <h2 id="workers-title">Workers</h2>
        {workers.error && <Trouble problem={workers.error} again={workers.refetch} />}
        {!workers.data && !workers.error && <Loading what="the workers" />}
        {workers.data?.items.length === 0 && (
          <Empty title="No worker has registered yet.">
            <p>Start one. Any number of workers can run, on any machine:</p>
            <Command>detent worker</Command>
          </Empty>
        )}
        <div className="tiles">
          {workers.data?.items.map((worker) => (
            <WorkerTile key={worker.name} worker={worker} />
          ))}
        </div>
      </section>
      <section aria-labelledby="resources-title">
        <h2 id="resources-title">Resources</h2>
        {resources.error && <Trouble problem={resources.error} again={resources.refetch} />}
        <div className="tiles">
          {resources.data?.items.map((resource) => (
            <ResourceTile key={resource.id} resource={resource} />
          ))}
        </div>
      </section>
    </>
  );
}

/** How a worker looks, and the word for it. */
function standing(worker: Worker): [look: string, word: string] {
  if (!worker.alive) return ["bad", "no heartbeat"];
  if (worker.draining) return ["attention", "draining"];
  return worker.running.length > 0 ? ["active", "working"] : ["good", "idle"];
}

/** Whether a worker uses fewer slots than it has, because its machine is short of memory. */
function isLowered({ alive, slots, concurrency }: Worker): boolean {
  return alive && slots !== null && concurrency !== null && slots < concurrency;
}

function WorkerTile({ worker }: { worker: Worker }) {
  const [look, word] = standing(worker);
  const slots = worker.slots ?? worker.concurrency;
  return (
    <article className="tile" aria-label={plain(worker.name)}>
      <header className="row">
        <h3 className="cut">{plain(worker.name)}</h3>
        <Mark look={look}>{word}</Mark>
      </header>
      <p className="faint">
        {worker.seen_at ? (
          <>
            last heartbeat <When at={worker.seen_at} />
          </>
        ) : (
          "no heartbeat yet"
        )}
        {slots !== null && ` · ${worker.running.length} of ${slots} slots`}
      </p>
      {isLowered(worker) && (
        <p>
          Its machine is short of memory: it uses {slots} of its {worker.concurrency} slots.
        </p>
      )}
      {slots !== null && <Meter label="Slots in use" used={worker.running.length} all={slots} />}
      <p className="row wrap">
        {worker.intents.map((intent) => (
          <span key={intent} className="tag">
            {plain(intent)}
          </span>
        ))}
      </p>
      {worker.running.length > 0 && (
        <ul className="plain-list">
          {worker.running.map((held) => (
            <li key={held.job_id} className="row">
              <Link to={held.task_id ? linkTo.task(held.task_id) : linkTo.job(held.job_id)}>
                {plain(held.intent)} {shortId(held.task_id ?? held.job_id)}
              </Link>
              <span className="faint">
                <When at={held.since} />
              </span>
            </li>
          ))}
        </ul>
      )}
      {(worker.alive || worker.draining) && (
        <Draining what="worker" name={worker.name} drained={worker.draining} />
      )}
    </article>
  );
}

/** How a resource looks, and the words for it. */
function conditionOf(resource: Resource): [look: string, word: string] {
  if (resource.drained) return ["attention", "drained"];
  if (resource.provider) return lookOf(resource.provider);
  return resource.healthy ? ["good", "healthy"] : ["bad", "unhealthy"];
}

function ResourceTile({ resource }: { resource: Resource }) {
  const [look, word] = conditionOf(resource);
  return (
    <article className="tile" aria-label={plain(resource.id)}>
      <header className="row">
        <h3 className="cut">{plain(resource.id)}</h3>
        <Mark look={look}>{word}</Mark>
      </header>
      <p className="faint">
        {resource.built_in
          ? "built in, without a capacity limit"
          : `${resource.in_use} of ${resource.capacity} in use`}
      </p>
      {!resource.built_in && (
        <Meter label="Capacity in use" used={resource.in_use} all={resource.capacity} />
      )}
      {resource.provider && <ProviderFacts provider={resource.provider} />}
      <p className="row wrap">
        {resource.capabilities.map((each) => (
          <span key={each} className="tag">
            {plain(each)}
          </span>
        ))}
        {Object.entries(resource.labels).map(([name, value]) => (
          <span key={name} className="tag">
            {plain(name)}: {plain(value)}
          </span>
        ))}
      </p>
      {resource.holders.length > 0 && (
        <p className="faint">
          held by{" "}
          {resource.holders.slice(0, 5).map((holder) => (
            <Link key={`${holder.job_id} ${holder.step}`} to={linkTo.job(holder.job_id)}>
              {plain(holder.step)}{" "}
            </Link>
          ))}
          {resource.holders.length > 5 && plural(resource.holders.length - 5, "more", "more")}
        </p>
      )}
      {!resource.built_in && (
        <Draining what="resource" name={resource.id} drained={resource.drained} />
      )}
      {resource.provider && <ResetProvider name={resource.id} provider={resource.provider} />}
    </article>
  );
}

interface DrainingProps {
  what: "worker" | "resource";
  name: string;
  drained: boolean;
}

/** The button that drains a worker or a resource, or undrains it. */
function Draining({ what, name, drained }: DrainingProps) {
  const drain = useVerb(`drain_${what}`);
  const undrain = useVerb(`undrain_${what}`);
  const problem = drain.error ?? undrain.error;
  return (
    <>
      <div className="row">
        <button
          type="button"
          className="button small"
          onClick={() => (drained ? undrain : drain).mutate({ name })}
        >
          {drained ? "Undrain" : "Drain"}
        </button>
      </div>
      {problem && <Trouble problem={problem} />}
    </>
  );
}
