// The emblem of detent: a pulse that comes to rest.
export function Emblem() {
  return (
    <svg className="emblem" viewBox="0 0 32 32" aria-hidden="true">
      <path d="M4 20h7l3.500-10L18 26l2.500-6H28" />
    </svg>
  );
}
