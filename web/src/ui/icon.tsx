// The few icons of the page, as strokes on a 16 grid.
const PATHS: Record<string, string> = {
  inbox: "M2 9.500 4 3h8l2 6.500V13H2zM2 9.500h3.500L6.500 11h3l1-1.500H14",
  board: "M2 3h3.500v10H2zM6.300 3h3.400v6.500H6.300zM10.500 3H14v8h-3.500z",
  jobs: "M2 4h12M2 8h12M2 12h8",
  runs: "M4 3l8 5-8 5z",
  workers: "M3 3h10v4H3zM3 9h10v4H3zM5.500 5h.01M5.500 11h.01",
  schedules: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM8 4.800V8l2.300 1.500",
  access: "M5.500 5a3 3 0 1 0 0 6a3 3 0 0 0 0-6zM8.500 8H14v2.500M11.500 8v2",
  health: "M1.500 8.500h3l2-5 3 9 2-4h3",
  lifecycles:
    "M4 4a1.500 1.500 0 1 0 0 .01M12 8a1.500 1.500 0 1 0 0 .01M4 12a1.500 1.500 0 1 0 0 .01M5.500 4.500l5 3M5.500 11.500l5-3",
  sun: "M8 5.200a2.800 2.800 0 1 0 0 5.600a2.800 2.800 0 0 0 0-5.600zM8 1.500v1.300M8 13.200v1.300M1.500 8h1.300M13.200 8h1.300M3.400 3.400l.9.9M11.700 11.700l.9.9M3.400 12.600l.9-.9M11.700 4.300l.9-.9",
  moon: "M13 9.800A5.500 5.500 0 1 1 6.200 3a4.500 4.500 0 0 0 6.800 6.800z",
  search: "M7 2.500a4.500 4.500 0 1 0 0 9a4.500 4.500 0 0 0 0-9zM10.300 10.300l3.200 3.200",
  bell: "M4 11V7.500a4 4 0 0 1 8 0V11l1.200 1.500H2.800zM6.500 12.500a1.500 1.500 0 0 0 3 0",
  bell_off:
    "M4 11V7.500a4 4 0 0 1 8 0V11l1.200 1.500H2.800zM6.500 12.500a1.500 1.500 0 0 0 3 0M2.500 2.500l11 11",
  add: "M8 3v10M3 8h10",
  leave: "M6 2.500H3v11h3M7 8h6.500M11 5.500 13.500 8 11 10.500",
};

export function Icon({ name }: { name: string }) {
  return (
    <svg className="icon" viewBox="0 0 16 16" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}
