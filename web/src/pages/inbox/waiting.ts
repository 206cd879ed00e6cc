// Everything that waits for a person, oldest first, as the server's inbox has it.
import { useFresh, useRead } from "../../api/hooks";

export function useWaiting() {
  const inbox = useRead("inbox", {});
  useFresh(["inbox"], (event) => /^(task|budget)_/.test(event.name));
  const again = () => void inbox.refetch();
  return { items: inbox.data?.items, problem: inbox.error, again };
}
