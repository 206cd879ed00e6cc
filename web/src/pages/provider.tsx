// What is known about a provider: its service, its limits, its circuit breaker, and today's usage.
import { useVerb } from "../api/hooks";
import type { Provider } from "../api/schema";
import { dollars, plain, plural } from "../text";
import { Trouble } from "../ui/notes";
import { When } from "../ui/when";

const LOOKS: Record<string, [look: string, word: string]> = {
  available: ["good", "available"],
  limited: ["attention", "rate limited"],
  open: ["bad", "circuit breaker open"],
  half_open: ["attention", "circuit breaker half-open"],
  unhealthy: ["bad", "unhealthy"],
};

/** How a provider looks, and the words for its state. */
export function lookOf(provider: Provider): [look: string, word: string] {
  return LOOKS[provider.state] ?? ["attention", provider.state];
}

export function ProviderFacts({ provider }: { provider: Provider }) {
  const { breaker, today } = provider;
  return (
    <dl className="facts">
      <div>
        <dt>service</dt>
        <dd>
          {plain(provider.service)}
          {provider.personal && ", personal account"}
        </dd>
      </div>
      {provider.limited_until && (
        <div>
          <dt>limit ends</dt>
          <dd>
            <When at={provider.limited_until} />
            {!provider.reset_stated && ", no reset was stated"}
          </dd>
        </div>
      )}
      {breaker.failures > 0 && (
        <div>
          <dt>failures</dt>
          <dd>
            {breaker.failures} in a row
            {breaker.open_until && (
              <>
                , next trial <When at={breaker.open_until} />
              </>
            )}
          </dd>
        </div>
      )}
      <div>
        <dt>today</dt>
        <dd>
          {plural(today.runs, "run")}, {plural(today.rate_limits, "rate limit")},{" "}
          {today.tokens_in.toLocaleString("en")} tokens in, {today.tokens_out.toLocaleString("en")}{" "}
          out, {dollars(today.cost_usd)}
        </dd>
      </div>
      {provider.error && (
        <div>
          <dt>last error</dt>
          <dd>
            {plain(provider.error)}
            {provider.failed_at && (
              <>
                {" "}
                <When at={provider.failed_at} />
              </>
            )}
          </dd>
        </div>
      )}
    </dl>
  );
}

/** The button that ends the rate limit of a provider and closes the breaker of its service. */
export function ResetProvider({ name, provider }: { name: string; provider: Provider }) {
  const reset = useVerb("reset_resource");
  if (!provider.limited_until && provider.breaker.failures === 0) return null;
  return (
    <>
      <div className="row">
        <button type="button" className="button small" onClick={() => reset.mutate({ name })}>
          Reset limits
        </button>
      </div>
      {reset.error && <Trouble problem={reset.error} />}
    </>
  );
}
