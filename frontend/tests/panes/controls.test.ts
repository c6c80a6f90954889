// @vitest-environment jsdom
import { expect, test } from "vitest";
import type { Input, Machine } from "../../src/data/machine";
import { knob, stepOf } from "../../src/panes/controls";

/** A machine with one input. */
export function machineOf(shape: readonly number[], first: readonly number[], control: Partial<Input["control"]> = {}): Machine & { now: number[] } {
  const now = [...first];
  const input: Input = { name: "gain", id: 1, dtype: "float32", shape, bytes: 4, first, control: { kind: "sliders", low: 0, high: 3, words: null, rows: 1, ...control } };
  return {
    now, inputs: [input],
    input: () => ({ dtype: "float32", shape, numbers: now }),
    set: (_: number, from: number, numbers: ArrayLike<number>) => void now.splice(from, numbers.length, ...Array.from(numbers)),
  } as unknown as Machine & { now: number[] };
}

test.each([
  [0, 3, 0.002], [0, 10, 0.01], [0, 1, 0.001], [-8, 8, 0.02], [0, 5, 0.005], [0, 4e-9, 5e-12], [0, 9, 0.01], [-1e6, 1e6, 2000],
])("from %d to %d a step is %d", (low, high, step) => {
  expect(stepOf(low, high)).toBe(step);
});
test("a slider has steps that people count in, and says the value as it is", () => {
  const machine = machineOf([], [Math.fround(0.20123)]), made = knob(machine, 0);
  made.draw();
  const range = made.element.querySelector<HTMLInputElement>("input")!, output = made.element.querySelector("output")!;
  expect([range.min, range.max, range.step]).toEqual(["0", "3", "0.002"]);
  expect(output.textContent).toBe("0.20123");
  for (const value of ["0.2", "1"]) {
    range.value = value;
    range.dispatchEvent(new Event("input"));
    made.draw();
    expect(machine.now).toEqual([Number(value)]);
    expect(output.textContent).toBe(value);
  }
});
test("words are steps of one", () => {
  const { element } = knob(machineOf([], [0], { low: 0, high: 0, words: ["a"] }), 0);
  expect(element.querySelector("input")!.step).toBe("1");
});
test("a scalar has no shape, and others have", () => {
  const shape = (made: Machine) => knob(made, 0).element.querySelector("h3 > .ll-faint")!.textContent;
  for (const one of [[], [1], [1, 1]]) expect(shape(machineOf(one, [1]))).toBe("");
  expect(shape(machineOf([3], [1, 2, 3]))).toBe("3");
});
test("a batch of what would have a pad says how it gets one", () => {
  const words = (rows: number) => knob(machineOf([rows, 2, 2], Array<number>(4 * rows).fill(0), { rows }), 0).element.textContent;
  expect(words(5)).toContain("It shows the whole batch; one row, set before the export, gives a pad to draw on.");
  expect(words(1)).not.toContain("batch");
});
