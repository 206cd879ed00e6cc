// The times until which an item can be snoozed with one choice, in the time zone of the browser.

export interface SnoozeTime {
  name: string;
  at: Date;
}

const MORNING = 9;
const HOUR_MS = 3_600_000;
const MONDAY = 1;

export function snoozeTimes(now: Date): SnoozeTime[] {
  const untilMonday = (MONDAY - now.getDay() + 7) % 7 || 7;
  return [
    { name: "for 1 hour", at: new Date(now.getTime() + HOUR_MS) },
    { name: "until tomorrow, 9:00", at: morning(now, 1) },
    { name: "until next week, Monday 9:00", at: morning(now, untilMonday) },
  ];
}

function morning(now: Date, days: number): Date {
  return new Date(now.getFullYear(), now.getMonth(), now.getDate() + days, MORNING);
}

/** A time as the value of an input of the type `datetime-local`. */
export function localValue(at: Date): string {
  const two = (number: number) => String(number).padStart(2, "0");
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${day}T${two(at.getHours())}:${two(at.getMinutes())}`;
}
