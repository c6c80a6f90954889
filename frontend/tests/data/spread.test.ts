// Layouts in words and by class, and what is sent where.

import { expect, test } from "vitest";
import { classOf, lastOf, layoutWords, sendingAt, sizeSent, spreadOf } from "../../src/data/spread";
import { MESH } from "../spreads";
import { made } from "../made";

test.each([
  ["data, -", "cut over data", "(data, –)"],
  ["*, -", "whole", "whole"],
  ["", "whole", "whole"],
  ["-, model sum data", "cut over model; terms of a sum over data", "(–, model) sum over data"],
  ["max data", "terms of a max over data", "max over data"],
  ["stage 1", "stage 1", "stage 1"],
])("%s", (layout, group, words) => expect([classOf(layout), layoutWords(layout)]).toEqual([group, words]));

test("what is sent at a node, and how much of the most that is", () => {
  const run = made(MESH).runs[0]!, row = (id: number): number => run.rowsOf(id).at(-1)!;
  const sending = sendingAt(run, row(5))!;
  expect([sending.bytes, sending.share, sizeSent(sending)]).toEqual([128, 1, "sends 128 B"]);
  expect(sendingAt(run, row(3))).toBe(undefined);
  expect(spreadOf(run)!.cuts.get(2)).toBe("-, model");
  // The product before it was made anew.
  expect(lastOf(run, 0, 3)).toBe(4);
  expect(spreadOf(made({ stages: MESH.stages }).runs[0]!)).toBe(null);
});
