// A question that must be answered before anything else: a native modal dialog.
import { type FormEvent, type ReactNode, useEffect, useRef } from "react";

interface Props {
  title: string;
  /** The word for doing it; without one there is only something to read. */
  action?: string;
  danger?: boolean;
  busy?: boolean;
  /** The word for not doing it. */
  leave?: string;
  onDo?: () => void;
  onClose: () => void;
  children: ReactNode;
}

export function Dialog(props: Props) {
  const { title, action, danger, busy, onDo, onClose, children } = props;
  const { leave = "Close" } = props;
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    onDo?.();
  };
  return (
    <dialog ref={dialog} onClose={onClose} aria-labelledby="dialog-title">
      <form onSubmit={submit}>
        <h2 id="dialog-title">{title}</h2>
        {children}
        <div className="row end">
          <button type="button" className="button" onClick={() => dialog.current?.close()}>
            {leave}
          </button>
          {action && (
            <button
              type="submit"
              className={`button ${danger ? "danger" : "primary"}`}
              disabled={busy}
            >
              {action}
            </button>
          )}
        </div>
      </form>
    </dialog>
  );
}
