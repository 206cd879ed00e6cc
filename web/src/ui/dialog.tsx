// A question that must be answered before anything else: a native modal dialog.
import { type FormEvent, type ReactNode, useLayoutEffect, useRef } from "react";

interface Props {
  title: string;
  /** The word for doing it; without one there is only something to read. */
  action?: string;
  danger?: boolean;
  busy?: boolean;
  /** Whether the focus begins on the button that does it, so that Enter confirms. */
  enterConfirms?: boolean;
  /** The word for not doing it. */
  leave?: string;
  onDo?: () => void;
  onClose: () => void;
  children: ReactNode;
}

export function Dialog(props: Props) {
  const { title, action, danger, busy, onDo, onClose, children } = props;
  const { leave = "Close", enterConfirms = false } = props;
  const doing = useRef<HTMLButtonElement>(null);
  const dialog = useRef<HTMLDialogElement>(null);
  // Closed before it is removed, so that the focus returns to where it was.
  useLayoutEffect(() => {
    const shown = dialog.current;
    shown?.showModal();
    if (enterConfirms) doing.current?.focus();
    return () => shown?.close();
  }, [enterConfirms]);
  const closed = () => {
    if (dialog.current?.isConnected) onClose();
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    onDo?.();
  };
  return (
    <dialog ref={dialog} onClose={closed} aria-labelledby="dialog-title">
      <form onSubmit={submit}>
        <h2 id="dialog-title">{title}</h2>
        {children}
        <div className="row end">
          <button type="button" className="button" onClick={() => dialog.current?.close()}>
            {leave}
          </button>
          {action && (
            <button
              ref={doing}
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
