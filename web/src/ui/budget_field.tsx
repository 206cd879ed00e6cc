// A field for an amount of money in dollars.
interface Props {
  label: string;
  value: string;
  onChange: (value: string) => void;
  required?: boolean;
  /** The key that moves the focus here. */
  dataKey?: string;
}

export function BudgetField({ label, value, onChange, required, dataKey }: Props) {
  return (
    <label className="field">
      <span>{label}</span>
      <input
        className="input"
        data-key={dataKey}
        type="number"
        min={0.01}
        step="any"
        required={required}
        value={value}
        onChange={(event) => onChange(event.target.value)}
      />
    </label>
  );
}
