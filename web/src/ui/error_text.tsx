// The error of a job or a run, with its class if that says more than that it failed.

import { plain, shown, words } from "../text";

interface Props {
  error: string;
  errorClass: string | null;
  heading: "h2" | "h3";
}

export function ErrorText({ error, errorClass, heading: Heading }: Props) {
  const kind = errorClass === null || errorClass === "error" ? "" : `: ${words(plain(errorClass))}`;
  return (
    <>
      <Heading>Error{kind}</Heading>
      <pre className="block">{shown(error)}</pre>
    </>
  );
}
