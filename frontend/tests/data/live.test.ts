// Questions to the kernel, answers in any order, and sentences where none comes.

import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { GONE, NO_KERNEL, Refused, throughModel, throughServer, withoutKernel } from "../../src/data/live";
import { FakeModel } from "../fakemodel";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test("answers find their questions", async () => {
  const model = new FakeModel();
  const live = throughModel(model);
  const first = live.ask("values", { id: 3 }), second = live.ask("why", { id: 4 });
  expect(model.sent).toEqual([{ ask: "values", request: 1, id: 3 }, { ask: "why", request: 2, id: 4 }]);
  model.emit("msg:custom", { reply: 2, text: "two" });
  model.emit("msg:custom", { reply: 1, text: "one" });
  model.emit("msg:custom", { reply: 1, text: "again" });
  model.emit("msg:custom", { something: "else" });
  expect([(await first)["text"], (await second)["text"]]).toEqual(["one", "two"]);
});

test("an error of the kernel's is a sentence", async () => {
  const model = new FakeModel();
  const asked = throughModel(model).ask("values");
  model.emit("msg:custom", { reply: 1, error: "There is no data for x." });
  await expect(asked).rejects.toThrow("There is no data for x.");
});

test("a refusal brings along what it is about", async () => {
  const model = new FakeModel();
  const asked = throughModel(model).ask("rerun");
  const carried = [{ digest: "ab", what: "kernel evil in C", source: "void evil(void) {}" }];
  model.emit("msg:custom", { reply: 1, error: "it comes from a file", carried });
  const error: unknown = await asked.catch((one: unknown) => one);
  expect(error).toBeInstanceOf(Refused);
  expect((error as Refused).carried).toEqual(carried);
});

test("silence is said after a minute; work that was begun is waited for", async () => {
  const model = new FakeModel();
  const live = throughModel(model);
  const silent = live.ask("values"), long = live.ask("time");
  const failed = expect(silent).rejects.toThrow("has not answered for a minute");
  model.emit("msg:custom", { reply: 2, working: true });
  await vi.advanceTimersByTimeAsync(61_000);
  await failed;
  model.emit("msg:custom", { reply: 2, run: 1 });
  expect((await long)["run"]).toBe(1);
});

test("without a kernel, every question is answered by a sentence at once", async () => {
  await expect(withoutKernel().ask("values")).rejects.toThrow(NO_KERNEL);
  const model = new FakeModel();
  model.widget_manager = { kernel: null };
  const live = throughModel(model);
  expect(live.hasKernel).toBe(false);
  await expect(live.ask("values")).rejects.toThrow(GONE);
  expect(model.sent).toEqual([]);
});

test("a connection that is cut is known", async () => {
  const model = new FakeModel();
  const live = throughModel(model);
  expect(live.hasKernel).toBe(true);
  model.comm_live = false;
  model.emit("comm_live_update");
  expect(live.hasKernel).toBe(false);
  expect(live.sorry).toBe(GONE);
  await expect(live.ask("values")).rejects.toThrow(GONE);
});

test("nothing is heard any more when it is over", () => {
  const model = new FakeModel();
  throughModel(model).dispose();
  expect(model.listening).toBe(0);
});

/** A server that gives some answers, and notes what it was asked. */
function server(...answers: [status: number, body: string][]): { asking: typeof fetch; asked: [string, string][] } {
  const asked: [string, string][] = [];
  const asking = (async (address: string, how?: RequestInit) => {
    asked.push([address, how?.body instanceof Blob ? await how.body.text() : ""]);
    const [status, body] = answers.shift() ?? [0, ""];
    if (!status) throw new TypeError("refused");
    return new Response(body, { status });
  }) as typeof fetch;
  return { asking, asked };
}

test("a served page asks at its own address, and fetches what has changed", async () => {
  vi.useRealTimers();
  const { asking, asked } = server([200, '{"run": 1, "changed": true}'], [200, "new"]);
  const bundles: string[] = [];
  const live = throughServer((bytes) => void bundles.push(new TextDecoder().decode(bytes)), asking);
  expect((await live.ask("drop", { at: 0 }, new TextEncoder().encode("piece").buffer))["run"]).toBe(1);
  expect(asked).toEqual([["", '{"at":0,"ask":"drop"}\npiece'], ["data", ""]]);
  expect(bundles).toEqual(["new"]);
});

test("what a server refuses, or does not answer, is a sentence", async () => {
  vi.useRealTimers();
  const { asking } = server([200, '{"error": "There is no data for x."}'], [413, ""], [404, ""]);
  const live = throughServer(() => undefined, asking);
  for (const sentence of ["There is no data for x.", "The question is too large.", "luminal-lab open was ended", "luminal-lab open was ended"])
    await expect(live.ask("values")).rejects.toThrow(sentence);
});
