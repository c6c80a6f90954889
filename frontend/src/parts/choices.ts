// What a reader chose of how things are shown, kept where the browser lets us.

const PREFIX = "luminal-lab.";

/** The choice made before, or what stands for it. */
export function chosen(name: string, otherwise: string): string {
  try {
    return localStorage.getItem(PREFIX + name) ?? otherwise;
  } catch {
    return otherwise; // a page from disk, or a frame without storage
  }
}

/** Keep a choice for the next time. */
export function choose(name: string, value: string): void {
  try {
    localStorage.setItem(PREFIX + name, value);
  } catch {
    // it holds for this time
  }
}
