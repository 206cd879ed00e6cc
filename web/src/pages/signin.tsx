// The sign-in page: shown to browsers without a session.
import { type FormEvent, useEffect, useState } from "react";
import { type Problem, signInProvider } from "../api/call";
import { codeFrom } from "../session";
import { plain } from "../text";
import { Emblem } from "../ui/emblem";
import { Command, Trouble } from "../ui/notes";

export function SignIn({
  problem,
  enter,
}: {
  problem: Problem | null;
  enter: (code: string) => void;
}) {
  const [text, setText] = useState("");
  const [wrong, setWrong] = useState(false);
  const [provider, setProvider] = useState<string | null>(null);
  useEffect(() => {
    signInProvider().then(setProvider, () => setProvider(null));
  }, []);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const code = codeFrom(text);
    setWrong(!code);
    if (code) enter(code);
  };
  return (
    <main className="alone">
      <h1>
        <Emblem />
        detent
      </h1>
      {problem && <Trouble problem={problem} />}
      <p>This browser is not signed in.</p>
      {provider && (
        <p>
          <a className="button primary" href="/api/login/oidc">
            Sign in with {plain(provider)}
          </a>
        </p>
      )}
      <p>On the machine where detent runs, create a link that works once:</p>
      <Command>detent dashboard</Command>
      <p>Open the link that it prints, or paste it here. It is valid for a minute.</p>
      <form className="row" onSubmit={submit}>
        <input
          className="input grow"
          value={text}
          onChange={(event) => setText(event.target.value)}
          aria-label="One-time link or code"
          placeholder="http://…/#code=…"
          aria-invalid={wrong}
          autoComplete="off"
          spellCheck={false}
        />
        <button type="submit" className={provider ? "button" : "button primary"}>
          Sign in
        </button>
      </form>
      {wrong && <p className="bad-text">This is not a one-time link or its code.</p>}
    </main>
  );
}
