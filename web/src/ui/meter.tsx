// A meter: a bar that shows used and total amounts, with the numbers for screen readers.

interface Props {
  label: string;
  used: number;
  all: number;
}

export function Meter({ label, used, all }: Props) {
  const share = all > 0 ? Math.min(1, used / all) : 1;
  return (
    <div
      className="meter"
      role="meter"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={all}
      aria-valuenow={Math.min(used, all)}
      aria-valuetext={`${used} of ${all}`}
      data-full={used > all}
    >
      <span style={{ width: `${share * 100}%` }} />
    </div>
  );
}
